#include "compile/schedule/block_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compile/schedule/spread_layers.h"
#include "ir/rule.h"

namespace tessera {
namespace {

// A chunk's cost is told in so many parts of the cheapest layer, where layers differ.
constexpr double kCostUnits = 4;

double forward_flops(const ValueVector& values, const Block& b) {
  double flops = 0;
  for (const Op& op : b.forward) flops += cost_of(op, values).flops.hardware;
  return flops;
}

}  // namespace

BlockShares shares_of(const IdVector<BlockId, Block>& blocks, const ValueVector& values) {
  BlockShares shares;
  double before = 0;
  for (const Block& b : blocks) {
    const double flops = forward_flops(values, b);
    if (b.is_stack())
      for (int64_t l = 0; l < b.layers; ++l) shares.layers.push_back(flops + (l == 0 ? before : 0));
    before = b.is_stack() || b.input == kNone ? 0 : flops;
  }
  const double cheapest = *std::min_element(shares.layers.begin(), shares.layers.end());
  for (double& c : shares.layers) c /= cheapest;
  shares.embedding = forward_flops(values, blocks.front()) / cheapest;
  shares.head = forward_flops(values, blocks.back()) / cheapest;
  return shares;
}

std::vector<int64_t> spread_layers(const BlockShares& shares, int64_t chunks) {
  return spread_layers(shares.layers, chunks, shares.embedding, shares.head);
}

std::vector<int64_t> chunk_costs(const BlockShares& shares, const std::vector<int64_t>& layers) {
  std::vector<int64_t> costs;
  auto next = shares.layers.begin();
  const bool alike = shares.layers.front() == shares.layers.back();
  for (const int64_t n : layers) {
    const double cost = std::accumulate(next, next + n, 0.0);
    next += n;
    costs.push_back(std::max<int64_t>(alike ? n : std::llround(kCostUnits * cost), 1));
  }
  return costs;
}

}  // namespace tessera
