// The relative costs of layers, embedding and head, in forward operations of the cheapest layer.
// Only ratios matter: they balance stages and order the pipeline's actions; no hardware is
// involved.
#include "compile/schedule/layer_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "compile/schedule/stage_layers.h"
#include "ir/rule.h"

namespace tessera::compile {

// Spreads layers over chunks so that the most expensive chunk is as cheap as possible; among those
// solutions, as evenly as possible. Dynamic programming: best[l] is the minimum of (largest cost,
// sum of squared costs) over all ways to give the first l layers to the chunks so far. O(chunks
// layers^2).
std::vector<int64_t> spread_layers(int64_t layers, int64_t chunks, double embedding, double head) {
  CHECK(layers >= 0, "{} layers", layers);
  return spread_layers(std::vector<double>(layers, 1.0), chunks, embedding, head);
}

std::vector<int64_t> spread_layers(const std::vector<double>& layers, int64_t chunks,
                                   double embedding, double head) {
  CHECK(chunks >= 1, "{} layers in {} chunks", layers.size(), chunks);
  std::vector<double> before = {0};  // cost of the layers before each
  for (const double layer : layers) before.push_back(before.back() + layer);
  // Returns the cost of a chunk whose n layers end before `end`.
  const auto cost = [&](int64_t chunk, size_t end, size_t n) {
    return before[end] - before[end - n] + (chunk == 0 ? embedding : 0) +
           (chunk + 1 == chunks ? head : 0);
  };
  // best[l]: (largest cost, sum of squares) of the chunks so far with l layers. `taken`: the
  // number of layers of the last chunk.
  using Best = std::pair<double, double>;
  const size_t count = layers.size() + 1;
  const Best none = {std::numeric_limits<double>::infinity(), 0};
  std::vector<Best> best(count, none);
  best[0] = {0, 0};
  std::vector<std::vector<size_t>> taken;
  for (int64_t c = 0; c < chunks; ++c) {
    std::vector<Best> next(count, none);
    taken.emplace_back(count, 0);
    for (size_t l = 0; l < count; ++l)
      for (size_t n = 0; n <= l; ++n) {
        const double own = cost(c, l, n);
        const Best with = {std::max(best[l - n].first, own), best[l - n].second + own * own};
        if (with < next[l]) next[l] = with, taken.back()[l] = n;
      }
    best = std::move(next);
  }
  // The choices are traced back from the last chunk.
  std::vector<int64_t> spread(chunks);
  size_t left = layers.size();
  for (int64_t c = chunks; c-- > 0; left -= spread[c]) spread[c] = taken[c][left];
  return spread;
}

namespace {

// If layers differ, the cost of a chunk is counted in quarters of the cheapest layer.
constexpr double kCostUnits = 4;

// Without the ops that only training has, so that it and validation divide the layers alike.
double forward_flops(const ValueVector& values, const Block& b) {
  double flops = 0;
  for (const Op& op : b.forward)
    if (!rule_of(op).effects.measures_step) flops += cost_of(op, values).flops.hardware;
  return flops;
}

}  // namespace

LayerCosts shares_of(const IdVector<BlockId, Block>& blocks, const ValueVector& values) {
  LayerCosts shares;
  IdVector<BlockId, double> flops;
  for (const Block& b : blocks) flops.push_back(forward_flops(values, b));
  double before = 0;
  for (const ChunkBlock& v : model_order(blocks)) {
    if (v.layer != kNone) shares.layers.push_back(flops[v.block] + before);
    before = v.layer != kNone || blocks[v.block].input == kNone ? 0 : flops[v.block];
  }
  const double cheapest = *std::min_element(shares.layers.begin(), shares.layers.end());
  for (double& c : shares.layers) c /= cheapest;
  shares.embedding = flops.front() / cheapest;
  shares.head = flops.back() / cheapest;
  return shares;
}

std::vector<int64_t> spread_layers(const LayerCosts& shares, int64_t chunks) {
  return spread_layers(shares.layers, chunks, shares.embedding, shares.head);
}

std::vector<int64_t> chunk_costs(const LayerCosts& shares, const std::vector<int64_t>& layers) {
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

}  // namespace tessera::compile
