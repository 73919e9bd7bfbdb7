// Successive halving: with r rungs, each rung costs about trials × steps / η^(r−1), since η times
// fewer trials run η times longer. So all of it costs about r / η^(r−1) of training every trial in
// full, and the best of n configurations is found if its loss is among the best 1/η at each rung.
// A smaller learning rate looks better at a rung than at the end, where the rate has decayed, so
// values close to the best often change order after the last rung: several finalists run to the
// end. Rungs inside the warm-up of the learning rate are omitted by the caller's `least`: losses
// there do not yet rank the trials.
#include "sweep/halving.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::sweep {

std::vector<Rung> rungs_of(int64_t trials, int64_t steps, const Halving& halving) {
  const int64_t eta = halving.eta;
  std::vector<Rung> rungs;
  int64_t rest = trials, divisor = 1;
  if (eta > 1)
    for (int64_t n = trials; n >= eta; n /= eta) divisor *= eta;
  for (; divisor >= 1; divisor /= eta) {
    const int64_t own = (steps + divisor - 1) / divisor;
    const int64_t before = rungs.empty() ? 0 : rungs.back().steps;
    if (divisor == 1 || (own >= halving.least && own > before && own < steps)) {
      // A previous rung with the same trials stopped none, so it is dropped.
      if (!rungs.empty() && rungs.back().trials == rest) rungs.pop_back();
      rungs.push_back({own, rest});
    }
    if (eta == 1) break;
    // Without the rung, nothing chooses among its trials.
    if (!rungs.empty()) rest = std::max(std::min(halving.finalists, rest), rest / eta);
  }
  return rungs;
}

int64_t steps_of(const std::vector<Rung>& rungs) {
  int64_t sum = 0, before = 0;
  for (const Rung& r : rungs) {
    sum += r.trials * (r.steps - before);
    before = r.steps;
  }
  return sum;
}

std::vector<size_t> best_of(const std::vector<double>& scores, int64_t keep) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return !std::isfinite(scores[i]); });
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  if (std::ssize(order) > keep) order.resize(static_cast<size_t>(keep));
  return order;
}

}  // namespace tessera::sweep
