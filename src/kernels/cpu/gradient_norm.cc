// Sums of squares, the search for non-finite values and the clip factor on the CPU. Blocks of a
// fixed size are summed by any thread and the block sums are added in order, so the gradient norm,
// and with it the clip factor, has the same bits for any number of threads.
#include "kernels/gradient_norm.h"

#include <algorithm>
#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/gradient_norm_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gradient_norm_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(SumSquares);
HWY_EXPORT(FindNonFinite);

namespace {

constexpr int64_t blocks_of(int64_t n) { return (n + kSquaresBlock - 1) / kSquaresBlock; }

}  // namespace

int64_t workspace_bytes(Cpu, const SquaresArgs& a, int) {
  return bytes_for<double>(blocks_of(a.x.elements()));
}

void launch(Cpu, const Launch& l, const SquaresArgs& a) {
  const Source from(a.x);
  const int64_t n = a.x.elements();
  const auto sums = l.room<double>();
  const auto block_sum = &HWY_DYNAMIC_DISPATCH(SumSquares);
  parallel_ranges(
      blocks_of(n), kGrainElements / kSquaresBlock, l.threads, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          sums[b] = block_sum(from, b * kSquaresBlock, std::min(n, (b + 1) * kSquaresBlock));
        }
      });
  double total = 0;
  for (int64_t b = 0; b < blocks_of(n); ++b) total += sums[b];
  *a.sum += total;
}

void launch(Cpu, const Launch& l, const FirstNonFiniteArgs& a) {
  const Source from(a.x);
  const int64_t n = a.x.elements();
  const auto find = &HWY_DYNAMIC_DISPATCH(FindNonFinite);
  int64_t first = n;
  parallel_ranges(n, kGrainElements, l.threads, [&](int64_t begin, int64_t end) {
    const int64_t found = find(from, begin, end);
    // The minimum over threads is the first element, in whatever order threads finish.
    if (found == end) return;
#pragma omp critical
    first = std::min(first, found);
  });
  *a.first = first == n ? -1 : first;
}

void launch(Cpu, const Launch&, const ClipArgs& c) {
  const double n = std::max(*c.tokens, 1.0) * *c.loss_scale;
  *c.norm = std::sqrt(*c.squares) / n;
  constexpr double kTiny = 1e-6;
  const double factor = c.limit > 0 ? std::min(1.0, c.limit / (*c.norm + kTiny)) : 1.0;
  *c.scale = factor / n;
  const bool finite = std::isfinite(*c.squares) && std::isfinite(*c.loss);
  *c.skip = finite && *c.skip_before == 0 ? 0 : 1;
}

}  // namespace tessera::kernels
