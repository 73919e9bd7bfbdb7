// Bindings of dropout and its gradient.
#include "runtime/ops/arguments.h"

#include "ir/state.h"
#include "runtime/binding.h"

namespace tessera::runtime {

kernels::Dropout dropout_of(const BoundOp& b, double probability, int64_t key,
                            const TensorView& step) {
  return {static_cast<float>(probability), static_cast<uint64_t>(key), number_at(step, kSeed),
          number_at(step, kStepNumber), b.layer};
}

namespace {

// A mask is a function of the element's index in the whole sample. The window is this rank's shard:
// sequence parallelism splits rows, tensor parallelism splits columns.
kernels::DropoutArgs args(const BoundOp& b) {
  const Dropout& a = b.op->as<Dropout>();
  const TensorView x = b.in(Dropout::kX), y = b.out(Dropout::kY);
  const ValueId v = b.op->inputs[Dropout::kX];
  const Shape &s = x.shape, &whole = b.values[v].shape;
  const Shape rows{s[0], s.product(1, s.rank() - 1), s[-1]};
  const GlobalBox e = b.extents(v);
  kernels::DropoutWindow window;
  window.first_row = s.rank() > 2 ? e.begin[1] * s.product(2, s.rank() - 1) : 0;
  window.first_column = e.begin.back();
  window.width = (whole[-1] + 3) / 4 * 4;  // rows start at random blocks, as in fused attention
  return {{x.data, x.dtype, rows},
          b.in(Dropout::kSamples),
          dropout_of(b, a.p, a.key, b.in(Dropout::kStep)),
          {y.data, y.dtype, rows},
          window,
          b.out(Dropout::kMask)};
}

// Returns the part of [B, R, F] that has rows [first, first + n) of a sample.
TensorView rows_of(const TensorView& x, int64_t sample, int64_t first, int64_t n) {
  if (!x) return x;
  return {x.at((sample * x.shape[1] + first) * x.shape[2]), x.dtype, {1, n, x.shape[2]}};
}

// Runs the kernel once for all rows, or for each range of consecutive tokens.
void run(const BoundOp& b) {
  const kernels::DropoutArgs all = args(b);
  const Value& v = b.values[b.op->inputs[Dropout::kX]];
  if (v.sharding.cut != ContextCut::kZigzag) return b.run(all);
  const int64_t token = b.in(Dropout::kX).shape.product(2, -1 + v.shape.rank());
  for (const TokenRange& r : token_ranges(v, b.position->mesh, b.extents(b.op->inputs[0])))
    for (int64_t sample = 0; sample < all.x.shape[0]; ++sample) {
      const auto rows = [&](const TensorView& x) {
        return rows_of(x, sample, r.local * token, r.count * token);
      };
      kernels::DropoutArgs one = all;
      one.x = rows(all.x);
      one.y = rows(all.y);
      one.mask = rows(all.mask);
      one.samples = {all.samples.at(sample), all.samples.dtype, {1}};
      one.window.first_row = r.first * token;
      b.run(one);
    }
}

kernels::DropoutGradArgs grad_args(const BoundOp& b) {
  return {b.in(DropoutGrad::kDy), b.in(DropoutGrad::kMask),
          static_cast<float>(b.op->as<DropoutGrad>().p), b.out(DropoutGrad::kDx)};
}

}  // namespace

template <>
const Binding& binding_for<Dropout>() {
  static constexpr Binding kBinding = {run, workspace_of<args>};
  return kBinding;
}
template <>
const Binding& binding_for<DropoutGrad>() {
  static constexpr Binding kBinding = kernel<grad_args>();
  return kBinding;
}

}  // namespace tessera::runtime
