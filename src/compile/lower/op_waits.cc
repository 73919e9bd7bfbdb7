// Finds the waits between ops of different queues, the latest first, by vector clocks.
#include "compile/lower/op_waits.h"

#include <algorithm>
#include <array>

#include "ir/chunk.h"
#include "ir/op_order.h"

namespace tessera {
namespace {

bool in_conflict(const std::vector<OperandUse>& a, const std::vector<OperandUse>& b,
                 ValueSpan values) {
  return std::any_of(a.begin(), a.end(), [&](const OperandUse& x) {
    return std::any_of(b.begin(), b.end(),
                       [&](const OperandUse& y) { return in_conflict(x, y, values); });
  });
}

}  // namespace

void find_op_waits(std::vector<Op>& ops, ValueSpan values) {
  for (Op& op : ops) op.after.clear();
  if (!uses_inner_queues(ops)) return;
  OpClocks clocks;
  std::vector<std::vector<OperandUse>> touches;
  for (size_t i = 0; i < ops.size(); ++i) {
    const Queue own = queue_of(ops[i], Queue::kCompute);
    clocks.add(own);
    touches.push_back(uses_of(ops[i], values));
    std::array<bool, kQueues> found{};
    found[static_cast<size_t>(own)] = true;
    for (size_t j = i; j-- > 0;) {
      bool& of_queue = found[static_cast<size_t>(queue_of(ops[j], Queue::kCompute))];
      if (of_queue || !in_conflict(touches[i], touches[j], values)) continue;
      of_queue = true;
      const auto before = static_cast<int32_t>(j), at = static_cast<int32_t>(i);
      if (clocks.is_before(before, at)) continue;
      clocks.wait_for(before);
      ops[i].after.push_back(before);
    }
    std::reverse(ops[i].after.begin(), ops[i].after.end());
  }
}

}  // namespace tessera
