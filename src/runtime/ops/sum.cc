// Bindings of sums of activations and of their rows.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::SumArgs args(const BoundOp& b) {
  const size_t terms = b.op->as<Sum>().terms;
  const bool biases = b.inputs.size() > terms;
  const int64_t columns = biases ? b.inputs[terms].elements() : b.inputs[0].shape[-1];
  kernels::SumArgs a;
  for (size_t i = 0; i < terms; ++i) a.terms.push_back(as_rows(b.inputs[i], columns));
  for (size_t i = terms; i < b.inputs.size(); ++i) a.biases.push_back(flat(b.inputs[i]));
  a.out = as_rows(b.out(Sum::kY), columns);
  return a;
}

// Returns the arguments for the gradient of the i-th bias. All biases of a sum have the same
// gradient.
kernels::BiasGradArgs bias_args(const BoundOp& b, size_t i) {
  return {as_rows(b.in(BiasGrad::kDy), b.outputs[i].elements()), flat(b.outputs[i])};
}
kernels::BiasGradArgs first_bias_args(const BoundOp& b) { return bias_args(b, 0); }

void run_bias_grad(const BoundOp& b) {
  for (size_t i = 0; i < b.outputs.size(); ++i) {
    b.clear_if_fresh(i);
    b.run(bias_args(b, i));
  }
}

}  // namespace

template <>
const Binding& binding_for<Sum>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<BiasGrad>() {
  static constexpr Binding kBinding = {run_bias_grad, workspace_of<first_bias_args>};
  return kBinding;
}

}  // namespace tessera::runtime
