#include "kernels/norm.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/norm_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/norm_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(NormaliseRows);
HWY_EXPORT(NormGradBlock);

namespace {

void run(NormRows& a, const Norm& n, int64_t rows) {
  CHECK(!n.outputs.empty() && n.outputs.size() <= kMaxNormOutputs, "a norm with {} outputs",
        n.outputs.size());
  for (const NormOutput& o : n.outputs) {
    CHECK(o.gain.elements() == a.sum.d && o.y.elements() == rows * a.sum.d,
          "norm of rows of {}: gain {}, y {}", a.sum.d, to_string(o.gain.shape),
          to_string(o.y.shape));
    a.outputs[a.output_count++] = {o.gain, o.bias ? Source(o.bias) : Source(), o.y};
  }
  a.centred = n.kind == NormKind::kLayer;
  a.epsilon = n.epsilon;
  a.stats = n.stats ? n.stats.f32() : nullptr;
  const auto normalise = &HWY_DYNAMIC_DISPATCH(NormaliseRows);
  parallel_rows(rows, a.sum.d, [&](int64_t begin, int64_t end) { normalise(a, begin, end); });
}

}  // namespace

void norm(const TensorView& x, const Norm& n) {
  NormRows a;
  a.sum.out = x;
  a.sum.d = columns_of(x);
  run(a, n, rows_of(x));
}

void sum_norm(std::span<const TensorView> terms, std::span<const TensorView> biases,
              const TensorView& out, const Norm& n) {
  NormRows a;
  a.sum = sum_rows(terms, biases, out, "sum_norm");
  run(a, n, rows_of(out));
}

int64_t norm_grad_workspace_bytes(int64_t n, int64_t d) {
  return row_blocks(n) * 2 * d * static_cast<int64_t>(sizeof(float));
}

void norm_grad(const NormGrad& a, void* workspace) {
  const int64_t d = columns_of(a.x), rows = rows_of(a.x), blocks = row_blocks(rows);
  CHECK(a.dy.elements() == a.x.elements() && a.dx.elements() == a.x.elements(),
        "norm_grad: x {}, dy {}, dx {}", to_string(a.x.shape), to_string(a.dy.shape),
        to_string(a.dx.shape));
  CHECK(a.gain.elements() == d && a.dgain.elements() == d && a.stats.elements() == 2 * rows,
        "norm_grad: rows of {}, gain {}, stats {}", d, to_string(a.gain.shape),
        to_string(a.stats.shape));
  const auto partials = static_cast<float*>(workspace);
  const NormGradRows g{.x = a.x,
                       .gain = a.gain,
                       .dy = a.dy,
                       .dx = a.dx,
                       .stats = a.stats.f32(),
                       .partials = partials,
                       .rows = rows,
                       .d = d,
                       .centred = a.kind == NormKind::kLayer,
                       .accumulate = a.accumulate_dx};
  const auto run_block = &HWY_DYNAMIC_DISPATCH(NormGradBlock);
  parallel_rows(blocks, kBlockRows * d, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) run_block(g, b);
  });
  add_block_sums({partials, blocks, 2 * d, d, a.dgain});
  if (a.dbias) add_block_sums({partials + d, blocks, 2 * d, d, a.dbias});
}

}  // namespace tessera::kernels
