// Spreads layers over chunks so that the most expensive chunk is as cheap as possible, and among
// those solutions the most even one. Dynamic programming: best[l] is the minimum of (largest cost,
// sum of squared costs) over all ways to give the first l layers to the chunks so far. O(chunks
// layers^2).
#include <limits>

#include "base/error.h"
#include "compile/schedule/spread_layers.h"

namespace tessera {

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
  // best[l]: (largest cost, sum of squares) of the chunks so far with l layers. taken: layers of
  // the last.
  using Best = std::pair<double, double>;
  const size_t count = layers.size() + 1;
  const Best none = {std::numeric_limits<double>::infinity(), 0};
  std::vector<Best> best(count, none);
  best[0] = {0, 0};
  std::vector<std::vector<int64_t>> taken;
  for (int64_t c = 0; c < chunks; ++c) {
    std::vector<Best> next(count, none);
    taken.emplace_back(count, 0);
    for (size_t l = 0; l < count; ++l)
      for (size_t n = 0; n <= l; ++n) {
        const double own = cost(c, l, n);
        const Best with = {std::max(best[l - n].first, own), best[l - n].second + own * own};
        if (with < next[l]) next[l] = with, taken.back()[l] = static_cast<int64_t>(n);
      }
    best = std::move(next);
  }
  // The choices are traced back from the last chunk.
  std::vector<int64_t> spread(chunks);
  size_t left = layers.size();
  for (auto c = static_cast<size_t>(chunks); c-- > 0; left -= static_cast<size_t>(spread[c]))
    spread[c] = taken[c][left];
  return spread;
}

}  // namespace tessera
