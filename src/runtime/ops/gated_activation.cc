// Bindings of gated activations and their gradients.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::GateKind kind_of_form(GateForm form) {
  if (form == GateForm::kSilu) return kernels::GateKind::kSilu;
  return form == GateForm::kErf ? kernels::GateKind::kErf : kernels::GateKind::kTanh;
}

kernels::GatedActivationArgs args(const BoundOp& b) {
  return {kind_of_form(b.op->as<GatedActivation>().form), b.inputs[0], b.outputs[0]};
}

kernels::GatedActivationGradArgs grad_args(const BoundOp& b) {
  return {kind_of_form(b.op->as<GatedActivationGrad>().form), b.inputs[0], b.inputs[1],
          b.outputs[0]};
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
