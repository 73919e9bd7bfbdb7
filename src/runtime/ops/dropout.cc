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

kernels::DropoutGradArgs grad_args(const BoundOp& b) {
  return {b.in(DropoutGrad::kDy), b.in(DropoutGrad::kMask),
          static_cast<float>(b.op->as<DropoutGrad>().p), b.out(DropoutGrad::kDx)};
}

}  // namespace

template <>
const Binding& binding_for<Dropout>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<DropoutGrad>() {
  static constexpr Binding kBinding = kernel<grad_args>();
  return kBinding;
}

}  // namespace tessera::runtime
