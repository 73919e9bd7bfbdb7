// Which calls of a schedule add to gradients, and which of them complete a sum: behind those zero()
// puts reductions.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "compile/lower/expand.h"

namespace tessera::compile {

// Of the schedule as it is when this is made; frames and calls may be added to the program later.
class GradientAdditions {
 public:
  // `each`: the sums of each micro-batch are apart; else one sum a step.
  GradientAdditions(const Program& p, const Expanded& e, bool each);

  // The group whose gradients the frames of a kind hold, or kNone.
  GroupId group_of(FrameKindId kind) const { return groups_[kind]; }
  // Whether the call adds what a micro-batch gives to its frame i.
  bool adds(const Call& c, size_t i) const {
    return c.microbatch != kNone && group_of(p_.frame(c.frames[i]).kind) != kNone;
  }
  // Of such an addition by the n-th call: is it the last of its sum, of the step?
  bool ends_sum(CallId n, const Call& c, size_t i) const;
  bool ends_step(CallId n, const Call& c, size_t i) const;

 private:
  using Key = std::tuple<GroupId, int64_t, int64_t>;  // group, layer, micro-batch
  Key key(const Call& c, size_t i, bool each) const;

  const Program& p_;
  bool each_;
  IdVector<FrameKindId, GroupId> groups_;
  std::map<Key, CallId> last_of_sum_, last_of_step_;  // the call of the last addition
};

}  // namespace tessera::compile
