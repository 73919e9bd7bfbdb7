#include "kernels/gelu.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/gelu_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gelu_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(GeluForward);
HWY_EXPORT(GeluGradBlock);

void gelu(GeluKind kind, const TensorView& x, const TensorView& bias, const TensorView& y) {
  const int64_t d = columns_of(x);
  CHECK(y.elements() == x.elements() && (!bias || bias.elements() == d),
        "gelu: x {}, bias {}, y {}", to_string(x.shape), to_string(bias.shape), to_string(y.shape));
  const GeluRows a{kind == GeluKind::kErf, x, bias ? Source(bias) : Source(), y, d};
  const auto run = &HWY_DYNAMIC_DISPATCH(GeluForward);
  parallel_rows(rows_of(x), d, [&](int64_t begin, int64_t end) { run(a, begin, end); });
}

int64_t gelu_grad_workspace_bytes(int64_t n, int64_t d) {
  return row_blocks(n) * d * static_cast<int64_t>(sizeof(float));
}

void gelu_grad(const GeluGrad& a, void* workspace) {
  const int64_t d = columns_of(a.x), rows = rows_of(a.x), blocks = row_blocks(rows);
  CHECK(a.dy.elements() == rows * d && a.dx.elements() == rows * d &&
            (!a.bias || a.bias.elements() == d) && (!a.dbias || a.dbias.elements() == d),
        "gelu_grad: x {}, bias {}, dy {}, dx {}", to_string(a.x.shape), to_string(a.bias.shape),
        to_string(a.dy.shape), to_string(a.dx.shape));
  const auto partials = a.dbias ? static_cast<float*>(workspace) : nullptr;
  const GeluGradRows g{.erf = a.kind == GeluKind::kErf,
                       .x = a.x,
                       .bias = a.bias ? Source(a.bias) : Source(),
                       .dy = a.dy,
                       .dx = a.dx,
                       .partials = partials,
                       .rows = rows,
                       .d = d};
  const auto run_block = &HWY_DYNAMIC_DISPATCH(GeluGradBlock);
  parallel_rows(blocks, kBlockRows * d, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) run_block(g, b);
  });
  if (a.dbias) add_block_sums({partials, blocks, d, d, a.dbias});
}

}  // namespace tessera::kernels
