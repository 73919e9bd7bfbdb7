// The relative costs of layers, embedding and head, in forward operations of the cheapest layer.
// Only ratios matter: they balance stages and order the pipeline's actions; no hardware is
// involved.
#include "compile/schedule/block_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compile/schedule/model_order.h"
#include "compile/schedule/spread_layers.h"
#include "ir/rule.h"

namespace tessera {
namespace {

// If layers differ, the cost of a chunk is counted in quarters of the cheapest layer.
constexpr double kCostUnits = 4;

double forward_flops(const ValueVector& values, const Block& b) {
  double flops = 0;
  for (const Op& op : b.forward) flops += cost_of(op, values).flops.hardware;
  return flops;
}

}  // namespace

BlockShares shares_of(const IdVector<BlockId, Block>& blocks, const ValueVector& values) {
  BlockShares shares;
  IdVector<BlockId, double> flops;
  for (const Block& b : blocks) flops.push_back(forward_flops(values, b));
  double before = 0;
  for (const Visit& v : model_order(blocks)) {
    if (v.layer != kNone) shares.layers.push_back(flops[v.block] + before);
    before = v.layer != kNone || blocks[v.block].input == kNone ? 0 : flops[v.block];
  }
  const double cheapest = *std::min_element(shares.layers.begin(), shares.layers.end());
  for (double& c : shares.layers) c /= cheapest;
  shares.embedding = flops.front() / cheapest;
  shares.head = flops.back() / cheapest;
  return shares;
}

std::vector<int64_t> spread_layers(const BlockShares& shares, int64_t chunks) {
  return spread_layers(shares.layers, chunks, shares.embedding, shares.head);
}

std::vector<int64_t> chunk_costs(const BlockShares& shares, const std::vector<int64_t>& layers) {
  std::vector<int64_t> costs;
  auto next = shares.layers.begin();
  const bool alike = std::all_of(shares.layers.begin(), shares.layers.end(),
                                 [&](double c) { return c == shares.layers.front(); });
  for (const int64_t n : layers) {
    const double cost = std::accumulate(next, next + n, 0.0);
    next += n;
    costs.push_back(std::max<int64_t>(alike ? n : std::llround(kCostUnits * cost), 1));
  }
  return costs;
}

}  // namespace tessera
