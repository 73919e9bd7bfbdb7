// Merges the stacks of each stream by the numbers of their layers.
#include "compile/schedule/model_order.h"

#include <algorithm>
#include <array>

namespace tessera {

std::vector<Visit> model_order(const IdVector<BlockId, Block>& blocks) {
  std::vector<Visit> order;
  std::array<int64_t, kHiddenStreams> ends{};  // of each stream: how many layers it has so far
  int64_t layers = 0;
  const auto end = [&](HiddenStream s) -> int64_t& { return ends[static_cast<size_t>(s)]; };
  for (BlockId b(0); blocks.contains(b);) {
    const Block& block = blocks[b];
    if (!block.is_stack()) {
      const Positions at{block.input == kNone ? int64_t{kNone} : end(block.from),
                         block.output == kNone ? int64_t{kNone} : end(block.to)};
      order.push_back({b, kNone, layers, at});
      b = BlockId(b.number() + 1);
      continue;
    }
    const auto first = static_cast<std::ptrdiff_t>(order.size());
    for (; blocks.contains(b) && blocks[b].is_stack() && blocks[b].from == block.from;
         b = BlockId(b.number() + 1))
      for (const int64_t l : blocks[b].at) order.push_back({b, l, 0, {l, l + 1}});
    std::sort(order.begin() + first, order.end(),
              [](const Visit& x, const Visit& y) { return x.layer < y.layer; });
    for (auto v = order.begin() + first; v != order.end(); ++v) v->before = layers++;
    end(block.from) = order.back().at.out;
  }
  return order;
}

}  // namespace tessera
