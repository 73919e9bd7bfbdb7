// Bindings of the experts and their gradient to prepared kernels, with adapters or without.
#include "kernels/adapted_experts.h"
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

// Returns the operands of an adapter; empty ones if the op has none.
template <class A>
kernels::ExpertAdapterOperands adapter(const BoundOp& b, typename A::In a, typename A::In of_b) {
  kernels::ExpertAdapterOperands o;
  o.a = b.in(a).data;
  o.b = b.in(of_b).data;
  return o;
}

kernels::ExpertAdapterOperands adapter_gradient(const BoundOp& b, kernels::ExpertAdapterOperands o,
                                                ExpertsGrad::Out a, ExpertsGrad::Out of_b) {
  o.d_a = b.out(a).data;
  o.d_b = b.out(of_b).data;
  o.fresh_a = b.is_fresh(a);
  o.fresh_b = b.is_fresh(of_b);
  return o;
}

template <class A>
void run_kernel(const BoundOp& b, const kernels::ExpertsOperands& o,
                const kernels::ExpertAdapterOperands& up,
                const kernels::ExpertAdapterOperands& down) {
  if (b.op->as<A>().adapters.any())
    static_cast<const kernels::AdaptedExperts*>(b.prepared)->run(b.launch, o, up, down);
  else
    static_cast<const kernels::Experts*>(b.prepared)->run(b.launch, o);
}

void run(const BoundOp& b) {
  kernels::ExpertsOperands o = operands<Experts>(b);
  o.pairs = b.out(Experts::kPairs).data;
  o.y = b.out(Experts::kY).data;
  run_kernel<Experts>(b, o, adapter<Experts>(b, Experts::kUpA, Experts::kUpB),
                      adapter<Experts>(b, Experts::kDownA, Experts::kDownB));
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
  const auto of = [&](ExpertsGrad::In a, ExpertsGrad::In of_b, ExpertsGrad::Out d_a,
                      ExpertsGrad::Out d_b) {
    return adapter_gradient(b, adapter<ExpertsGrad>(b, a, of_b), d_a, d_b);
  };
  run_kernel<ExpertsGrad>(
      b, o, of(ExpertsGrad::kUpA, ExpertsGrad::kUpB, ExpertsGrad::kDUpA, ExpertsGrad::kDUpB),
      of(ExpertsGrad::kDownA, ExpertsGrad::kDownB, ExpertsGrad::kDDownA, ExpertsGrad::kDDownB));
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
