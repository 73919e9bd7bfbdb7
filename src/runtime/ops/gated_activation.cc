// Bindings of gated activations and their gradients.
#include "runtime/binding.h"
#include "runtime/ops/arguments.h"

namespace tessera::runtime {
namespace {

kernels::GatedActivationArgs args(const BoundOp& b) {
  return {gate_of(b.op->as<GatedActivation>().form), b.inputs[0], b.outputs[0]};
}

kernels::GatedActivationGradArgs grad_args(const BoundOp& b) {
  return {gate_of(b.op->as<GatedActivationGrad>().form), b.inputs[0], b.inputs[1], b.outputs[0]};
}

}  // namespace

template <>
const Binding& binding_for<GatedActivation>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<GatedActivationGrad>() {
  static constexpr Binding kBinding = kernel<grad_args>();
  return kBinding;
}

}  // namespace tessera::runtime
