// Computes which ops of a segment are complete when another starts, from queues and waits alone.
#pragma once

#include <vector>

#include "ir/op.h"

namespace tessera {

bool uses_inner_queues(const std::vector<Op>& ops);

// Vector clocks: for each op and each queue, the last op of that queue that is complete when the op
// starts. Ops are added in the order of the list.
class OpClocks {
 public:
  OpClocks() = default;
  // Adds all ops with their waits.
  explicit OpClocks(const std::vector<Op>& ops);

  // Adds the next op, which so far comes only after the ops of its own queue.
  void add(Queue queue);
  // Makes the op added last also wait for that op.
  void wait_for(int32_t op);

  // Returns true if op `a` is complete when op `b` starts.
  bool is_before(int32_t a, int32_t b) const { return clocks_[b][queues_[a]] >= a; }

 private:
  using Clock = EnumArray<Queue, int32_t>;  // -1: none
  void join(Clock& clock, int32_t op) const;

  std::vector<Queue> queues_;
  std::vector<Clock> clocks_;
  Clock last_ = empty();  // the last op of each queue
  static constexpr Clock empty() {
    Clock c{};
    c.fill(-1);
    return c;
  }
};

}  // namespace tessera
