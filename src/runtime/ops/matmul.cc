// Bindings of GEMMs and of packed weights, by prepared kernels.
#include "kernels/matmul.h"
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

const kernels::Gemm& product_of(const BoundOp& b) {
  return static_cast<const kernels::Gemm&>(*b.prepared);
}

void run(const BoundOp& b) {
  product_of(b).run(b.launch, {b.inputs[0].data, b.packed != nullptr ? b.packed : b.inputs[1].data,
                               b.outputs[0].data});
}

void run_grad_weight(const BoundOp& b) {
  product_of(b).run(b.launch,
                    {b.in(MatmulGradWeight::kDy).data, b.in(MatmulGradWeight::kX).data,
                     b.out(MatmulGradWeight::kDw).data, b.is_fresh(MatmulGradWeight::kDw)});
}

void run_pack(const BoundOp& b) {
  product_of(b).pack(b.in(Pack::kWeight).data, b.out(Pack::kPacked).data);
}

int64_t workspace(const BoundOp& b) { return b.prepared->workspace_bytes(); }

}  // namespace

template <>
const Binding& binding_for<Matmul>() {
  static constexpr Binding kBinding = {run, workspace};
  return kBinding;
}
template <>
const Binding& binding_for<MatmulGradInput>() {
  return binding_for<Matmul>();
}
template <>
const Binding& binding_for<MatmulGradWeight>() {
  static constexpr Binding kBinding = {run_grad_weight, workspace};
  return kBinding;
}
template <>
const Binding& binding_for<Pack>() {
  static constexpr Binding kBinding = {run_pack, workspace};
  return kBinding;
}

}  // namespace tessera::runtime
