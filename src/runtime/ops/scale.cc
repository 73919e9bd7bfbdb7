// Bindings of scaling, of soft caps, and of adding a gradient to a sum.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::ScaleArgs args(const BoundOp& b) {
  const Scale& of = b.op->as<Scale>();
  const TensorView x = flat(b.in(Scale::kX));
  const auto factor = static_cast<float>(of.factor);
  return {x, of.rounded ? rounded_to(factor, x.dtype) : factor, flat(b.out(Scale::kY))};
}

kernels::SoftCapArgs cap_args(const BoundOp& b) {
  return {flat(b.in(SoftCap::kX)), static_cast<float>(b.op->as<SoftCap>().cap),
          flat(b.out(SoftCap::kY))};
}

void run_accumulate(const BoundOp& b) {
  const TensorView x = b.in(Accumulate::kX), sum = b.out(Accumulate::kSum);
  // The first addition of a step overwrites the sum, so a cast suffices.
  if (b.is_fresh(Accumulate::kSum)) return b.run(kernels::CastArgs{flat(x), flat(sum)});
  const int64_t columns = x.shape[-1];
  const TensorView rows = as_rows(sum, columns);
  b.run(kernels::SumArgs{{rows, as_rows(x, columns)}, {}, rows});
}

}  // namespace

template <>
const Binding& binding_for<Scale>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<SoftCap>() {
  static constexpr Binding kBinding = kernel<cap_args>();
  return kBinding;
}
template <>
const Binding& binding_for<Accumulate>() {
  static constexpr Binding kBinding = {run_accumulate};
  return kBinding;
}

}  // namespace tessera::runtime
