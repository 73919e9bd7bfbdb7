// Layer norm and RMS norm on the CPU, alone or fused with the residual sum. The forward is parallel
// over rows. The gradient runs by blocks of kBlockRows rows: each block sums its part of dgain and
// dbias into its own partial row, and the partial rows are added in order, so the bits do not
// depend on the number of threads.
#include "kernels/norm.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/norm_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/norm_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(NormalizeRows);
HWY_EXPORT(NormGradBlock);

namespace {

void run(NormRows& a, const Norm& n, int64_t rows, int threads) {
  CHECK(!n.outputs.empty(), "a norm without outputs");
  for (const NormOutput& o : n.outputs) {
    CHECK(o.gain.elements() == a.sum.d && o.y.elements() == rows * a.sum.d,
          "norm of rows of {}: gain {}, y {}", a.sum.d, to_string(o.gain.shape),
          to_string(o.y.shape));
    a.outputs[a.output_count++] = {o.gain, o.bias ? Source(o.bias) : Source(), o.y};
  }
  a.centered = n.kind == NormKind::kLayer;
  a.epsilon = n.epsilon;
  a.offset = n.unit_offset ? 1 : 0;
  a.stats = n.stats ? n.stats.f32() : nullptr;
  const auto normalize = &HWY_DYNAMIC_DISPATCH(NormalizeRows);
  parallel_rows(rows, a.sum.d, threads,
                [&](int64_t begin, int64_t end) { normalize(a, begin, end); });
}

}  // namespace

void launch(Cpu, const Launch& l, const NormArgs& a) {
  NormRows rows;
  rows.sum.out = a.x;
  rows.sum.d = columns_of(a.x);
  run(rows, a.norm, rows_of(a.x), l.threads);
}

void launch(Cpu, const Launch& l, const SumNormArgs& a) {
  NormRows rows;
  rows.sum = sum_rows(a.sum, "sum_norm");
  run(rows, a.norm, rows_of(a.sum.out), l.threads);
}

int64_t workspace_bytes(Cpu, const NormGradArgs& a, int) {
  return row_blocks(rows_of(a.x)) * 2 * columns_of(a.x) * static_cast<int64_t>(sizeof(float));
}

void launch(Cpu, const Launch& l, const NormGradArgs& a) {
  const int64_t d = columns_of(a.x), rows = rows_of(a.x), blocks = row_blocks(rows);
  CHECK(a.dy.elements() == a.x.elements() && a.dx.elements() == a.x.elements(),
        "norm_grad: x {}, dy {}, dx {}", to_string(a.x.shape), to_string(a.dy.shape),
        to_string(a.dx.shape));
  CHECK(a.gain.elements() == d && a.dgain.elements() == d && a.stats.elements() == 2 * rows,
        "norm_grad: rows of {}, gain {}, stats {}", d, to_string(a.gain.shape),
        to_string(a.stats.shape));
  const auto partials = static_cast<float*>(l.workspace);
  const NormGradRows g{.x = a.x,
                       .gain = a.gain,
                       .dy = a.dy,
                       .dx = a.dx,
                       .stats = a.stats.f32(),
                       .partials = partials,
                       .rows = rows,
                       .d = d,
                       .centered = a.kind == NormKind::kLayer,
                       .accumulate = a.accumulate_dx,
                       .offset = a.unit_offset ? 1.0f : 0.0f};
  const auto run_block = &HWY_DYNAMIC_DISPATCH(NormGradBlock);
  parallel_rows(blocks, kBlockRows * d, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) run_block(g, b);
  });
  add_block_sums({partials, blocks, 2 * d, d, a.dgain}, l.threads);
  if (a.dbias) add_block_sums({partials + d, blocks, 2 * d, d, a.dbias}, l.threads);
}

}  // namespace tessera::kernels
