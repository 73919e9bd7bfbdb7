// Bindings of GELU and its gradient.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::GeluKind kind_of_form(GeluForm form) {
  return form == GeluForm::kErf ? kernels::GeluKind::kErf : kernels::GeluKind::kTanh;
}

// With a bias, a row is as long as the bias, since the columns of x may span several dimensions.
kernels::GeluArgs args(const BoundOp& b) {
  const Gelu& a = b.op->as<Gelu>();
  const TensorView x = b.in(Gelu::kX);
  const TensorView bias = a.bias ? flat(b.in(Gelu::kBias)) : TensorView();
  const int64_t d = a.bias ? bias.elements() : x.shape[-1];
  return {kind_of_form(a.form), as_rows(x, d), bias, as_rows(b.out(Gelu::kY), d)};
}

kernels::GeluGradArgs grad_args(const BoundOp& b) {
  const Gelu& of = b.op->as<GeluGrad>().of;
  kernels::GeluGradArgs a;
  if (of.bias) {
    a.bias = flat(b.in(GeluGrad::kBias));
    a.dbias = flat(b.outputs[1]);
  }
  const TensorView x = b.in(GeluGrad::kX);
  const int64_t d = of.bias ? a.bias.elements() : x.shape[-1];
  a.kind = kind_of_form(of.form);
  a.x = as_rows(x, d);
  a.dy = as_rows(b.in(GeluGrad::kDy), d);
  a.dx = as_rows(b.out(GeluGrad::kDx), d);
  return a;
}

void run_grad(const BoundOp& b) {
  if (b.op->as<GeluGrad>().of.bias) b.clear_if_fresh(1);
  b.run(grad_args(b));
}

}  // namespace

template <>
const Binding& binding_for<Gelu>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<GeluGrad>() {
  static constexpr Binding kBinding = {run_grad, workspace_of<grad_args>};
  return kBinding;
}

}  // namespace tessera::runtime
