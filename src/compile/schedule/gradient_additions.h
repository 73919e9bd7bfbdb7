// Finds the calls of a schedule that add to gradients and those that complete a sum: zero() inserts
// reductions after the latter.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "compile/lower/lower.h"

namespace tessera::compile {

// Describes the schedule at the time of construction; buffers and calls may be added to the program
// later.
class GradientAdditions {
 public:
  // `each`: gradients are summed separately per micro-batch; otherwise there is one sum per step.
  GradientAdditions(const Program& p, const LoweredGraph& e, bool each);

  // Returns the group whose gradients the buffers of a kind hold, or kNone.
  GroupId group_of(BufferKindId kind) const { return groups_[kind]; }
  // Returns true if the call adds the gradient of a micro-batch to its buffer i.
  bool adds(const Call& c, size_t i) const {
    return c.microbatch != kNone && group_of(p_.buffer(c.buffers[i]).kind) != kNone;
  }
  // Return true if the addition by the n-th call is the last one of its sum, or of the step.
  bool ends_sum(CallId n, const Call& c, size_t i) const;
  bool ends_step(CallId n, const Call& c, size_t i) const;

 private:
  using Key = std::tuple<GroupId, int64_t, int64_t>;  // group, layer, micro-batch
  Key key(const Call& c, size_t i, bool each) const;

  const Program& p_;
  bool each_;
  IdVector<BufferKindId, GroupId> groups_;
  std::map<Key, CallId> last_of_sum_, last_of_step_;  // the call of the last addition
};

}  // namespace tessera::compile
