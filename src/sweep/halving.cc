// Successive halving: with r rungs, each rung costs about trials × steps / η^(r−1), since η times
// fewer trials run η times longer. So all of it costs about r / η^(r−1) of training every trial in
// full, and the best of n configurations is found if its loss is already among the best 1/η at each
// rung. Rungs inside the warm-up of the learning rate are omitted by the caller's `least`: losses
// there do not yet rank the trials.
#include "sweep/halving.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::sweep {

std::vector<Rung> rungs_of(int64_t trials, int64_t steps, int64_t eta, int64_t least) {
  std::vector<Rung> rungs;
  int64_t rest = trials, divisor = 1;
  if (eta > 1)
    for (int64_t n = trials; n >= eta; n /= eta) divisor *= eta;
  for (; divisor >= 1; divisor /= eta) {
    const int64_t own = (steps + divisor - 1) / divisor;
    const bool again = !rungs.empty() && rungs.back().steps == own;
    if (divisor == 1 || (own >= least && !again)) rungs.push_back({own, rest});
    if (eta == 1) break;
    // Without the rung, nothing chooses among its trials.
    if (!rungs.empty()) rest = std::max<int64_t>(1, rest / eta);
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
