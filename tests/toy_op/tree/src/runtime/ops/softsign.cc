// Bindings of softsign and its gradient.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::SoftsignArgs args(const BoundOp& b) { return {b.in(Softsign::kX), b.out(Softsign::kY)}; }
kernels::SoftsignGradArgs grad_args(const BoundOp& b) {
  return {b.in(SoftsignGrad::kX), b.in(SoftsignGrad::kDy), b.out(SoftsignGrad::kDx)};
}

}  // namespace

template <>
const Binding& binding_for<Softsign>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<SoftsignGrad>() {
  static constexpr Binding kBinding = kernel<grad_args>();
  return kBinding;
}

}  // namespace tessera::runtime
