// Bindings of the experts and their gradient to prepared kernels.
#include "kernels/experts.h"
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

// Returns the operands that the forward and the gradient share.
template <class A>
kernels::ExpertsOperands operands(const BoundOp& b) {
  kernels::ExpertsOperands o;
  o.x = b.in(A::kX).data;
  o.choice = b.in(A::kChoice).template as<int32_t>();
  o.weights = b.in(A::kWeights).template as<float>();
  o.up = b.in(A::kUp).data;
  o.down = b.in(A::kDown).data;
  o.up_bias = b.in(A::kUpBias).data;
  o.first = b.extents(b.op->inputs[A::kUp]).begin[0];
  return o;
}

void run(const BoundOp& b) {
  kernels::ExpertsOperands o = operands<Experts>(b);
  o.pairs = b.out(Experts::kPairs).data;
  o.y = b.out(Experts::kY).data;
  static_cast<const kernels::Experts*>(b.prepared)->run(b.launch, o);
}

void run_grad(const BoundOp& b) {
  kernels::ExpertsOperands o = operands<ExpertsGrad>(b);
  o.pairs = b.in(ExpertsGrad::kPairs).data;
  o.dy = b.in(ExpertsGrad::kDy).data;
  o.dx = b.out(ExpertsGrad::kDx).data;
  o.d_weights = b.out(ExpertsGrad::kDWeights).as<float>();
  o.d_up = b.out(ExpertsGrad::kDUp).data;
  o.d_down = b.out(ExpertsGrad::kDDown).data;
  o.d_up_bias = b.out(ExpertsGrad::kDUpBias).data;
  o.fresh_up = b.is_fresh(ExpertsGrad::kDUp);
  o.fresh_down = b.is_fresh(ExpertsGrad::kDDown);
  o.fresh_up_bias = b.is_fresh(ExpertsGrad::kDUpBias);
  static_cast<const kernels::Experts*>(b.prepared)->run(b.launch, o);
}

int64_t workspace(const BoundOp& b) { return b.prepared->workspace_bytes(); }

}  // namespace

template <>
const Binding& binding_for<Experts>() {
  static constexpr Binding kBinding = {run, workspace};
  return kBinding;
}
template <>
const Binding& binding_for<ExpertsGrad>() {
  static constexpr Binding kBinding = {run_grad, workspace};
  return kBinding;
}

}  // namespace tessera::runtime
