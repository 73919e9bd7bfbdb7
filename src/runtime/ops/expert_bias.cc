// Bindings of the output biases of experts.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::ExpertBiasArgs args(const BoundOp& b) {
  return {b.in(ExpertBias::kChoice), b.in(ExpertBias::kWeights), b.in(ExpertBias::kBias),
          b.extents(b.op->inputs[ExpertBias::kBias]).begin[0], b.out(ExpertBias::kY)};
}

kernels::ExpertBiasGradArgs grad_args(const BoundOp& b) {
  return {b.in(ExpertBiasGrad::kChoice), b.in(ExpertBiasGrad::kWeights),
          b.in(ExpertBiasGrad::kBias),   b.extents(b.op->inputs[ExpertBiasGrad::kBias]).begin[0],
          b.in(ExpertBiasGrad::kDy),     b.out(ExpertBiasGrad::kDWeights),
          b.out(ExpertBiasGrad::kDBias)};
}

void run_grad(const BoundOp& b) {
  if (b.outputs.size() > ExpertBiasGrad::kDBias) b.clear_if_fresh(ExpertBiasGrad::kDBias);
  b.run(grad_args(b));
}

}  // namespace

template <>
const Binding& binding_for<ExpertBias>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<ExpertBiasGrad>() {
  static constexpr Binding kBinding = {run_grad, workspace_of<grad_args>};
  return kBinding;
}

}  // namespace tessera::runtime
