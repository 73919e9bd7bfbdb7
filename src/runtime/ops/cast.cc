// Bindings of conversions and copies.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::CastArgs cast_args(const BoundOp& b) {
  return {flat(b.in(Cast::kX)), flat(b.out(Cast::kY))};
}
kernels::CopyArgs copy_args(const BoundOp& b) { return {b.in(Copy::kX), b.out(Copy::kY)}; }

}  // namespace

template <>
const Binding& binding_for<Cast>() {
  static constexpr Binding kBinding = kernel<cast_args>();
  return kBinding;
}
template <>
const Binding& binding_for<Copy>() {
  static constexpr Binding kBinding = kernel<copy_args>();
  return kBinding;
}

}  // namespace tessera::runtime
