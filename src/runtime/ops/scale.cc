// Bindings of scaling, and of adding a gradient to a sum.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::ScaleArgs args(const BoundOp& b) {
  return {flat(b.in(Scale::kX)), static_cast<float>(b.op->as<Scale>().factor),
          flat(b.out(Scale::kY))};
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
const Binding& binding_for<Accumulate>() {
  static constexpr Binding kBinding = {run_accumulate};
  return kBinding;
}

}  // namespace tessera::runtime
