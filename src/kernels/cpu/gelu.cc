// GELU after an optional bias on the CPU, and the gradients of both. The bias gradient is summed in
// fixed blocks of rows (sum_rows.h).
#include "kernels/gelu.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/gelu_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gelu_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(GeluForward);
HWY_EXPORT(GeluGradBlock);

void launch(Cpu, const Launch& l, const GeluArgs& a) {
  const int64_t d = columns_of(a.x);
  CHECK(a.y.elements() == a.x.elements() && (!a.bias || a.bias.elements() == d),
        "gelu: x {}, bias {}, y {}", to_string(a.x.shape), to_string(a.bias.shape),
        to_string(a.y.shape));
  const GeluRows g{a.kind == GeluKind::kErf, a.x, a.bias ? Source(a.bias) : Source(), a.y, d};
  const auto run = &HWY_DYNAMIC_DISPATCH(GeluForward);
  parallel_rows(rows_of(a.x), d, l.threads,
                [&](int64_t begin, int64_t end) { run(g, begin, end); });
}

int64_t workspace_bytes(Cpu, const GeluGradArgs& a, int) {
  if (a.dbias.shape.rank() == 0) return 0;
  return bytes_for<float>(row_blocks(rows_of(a.x)) * columns_of(a.x));
}

void launch(Cpu, const Launch& l, const GeluGradArgs& a) {
  const int64_t d = columns_of(a.x), rows = rows_of(a.x), blocks = row_blocks(rows);
  CHECK(a.dy.elements() == rows * d && a.dx.elements() == rows * d &&
            (!a.bias || a.bias.elements() == d) && (!a.dbias || a.dbias.elements() == d),
        "gelu_grad: x {}, bias {}, dy {}, dx {}", to_string(a.x.shape), to_string(a.bias.shape),
        to_string(a.dy.shape), to_string(a.dx.shape));
  // A block of rows is one task: it writes dx, and with a bias the column sums of the block.
  const auto partials = a.dbias ? l.room<float>() : nullptr;
  const GeluGradRows g{.erf = a.kind == GeluKind::kErf,
                       .x = a.x,
                       .bias = a.bias ? Source(a.bias) : Source(),
                       .dy = a.dy,
                       .dx = a.dx,
                       .partials = partials,
                       .rows = rows,
                       .d = d};
  const auto run_block = &HWY_DYNAMIC_DISPATCH(GeluGradBlock);
  parallel_rows(blocks, kBlockRows * d, l.threads, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) run_block(g, b);
  });
  if (a.dbias) add_block_sums({partials, blocks, d, d, a.dbias}, l.threads);
}

}  // namespace tessera::kernels
