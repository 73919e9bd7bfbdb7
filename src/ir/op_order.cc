// Computes with vector clocks which ops of a segment are complete before others start.
#include "ir/op_order.h"

#include <algorithm>

namespace tessera {

bool uses_inner_queues(const std::vector<Op>& ops) {
  return std::any_of(ops.begin(), ops.end(), [](const Op& op) { return is_inner(op.queue); });
}

OpClocks::OpClocks(const std::vector<Op>& ops) {
  for (const Op& op : ops) {
    add(queue_of(op, Queue::kCompute));
    for (const int32_t j : op.after) wait_for(j);
  }
}

// clock[q] of an op is the last op of queue q that is complete when it starts. It is the maximum
// over the previous op on its own queue and the ops that it waits for, of these ops themselves and
// of their clocks. A queue runs in order, so one number per queue covers all earlier ops.
void OpClocks::join(Clock& clock, int32_t op) const {
  const Clock& other = clocks_[op];
  for (const Queue q : Enumerators<Queue>()) clock[q] = std::max(clock[q], other[q]);
  int32_t& own = clock[queues_[op]];
  own = std::max(own, op);
}

void OpClocks::add(Queue queue) {
  Clock clock = empty();
  int32_t& last = last_[queue];
  if (last >= 0) join(clock, last);
  last = static_cast<int32_t>(queues_.size());
  queues_.push_back(queue);
  clocks_.push_back(clock);
}

void OpClocks::wait_for(int32_t op) { join(clocks_.back(), op); }

}  // namespace tessera
