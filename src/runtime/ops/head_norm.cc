// Bindings of the norm of queries and keys, and of the sums of squares that it reads.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

// A is HeadNorm or its gradient.
template <class A>
kernels::HeadNorm norm_of(const BoundOp& b, const HeadNorm& of) {
  kernels::HeadNorm n;
  n.qkv = b.in(A::kQkv);
  n.query_gain = b.in(A::kQueryGain);
  n.key_gain = b.in(A::kKeyGain);
  n.squares = b.in(A::kSquares);
  n.epsilon = static_cast<float>(of.epsilon);
  n.unit_offset = of.unit_offset;
  // The shape of all heads; this rank may have only a part of them.
  const Shape& all = b.values[b.op->inputs[A::kQkv]].shape;
  n.key_count = all[2] * all[4];
  n.query_count = n.key_count * (all[3] - 2);
  return n;
}

kernels::HeadNormArgs args(const BoundOp& b) {
  return {norm_of<HeadNorm>(b, b.op->as<HeadNorm>()), b.out(HeadNorm::kY)};
}

using Grad = HeadNormGrad;

kernels::HeadNormGradArgs grad_args(const BoundOp& b) {
  return {norm_of<Grad>(b, b.op->as<Grad>().of),
          b.in(Grad::kDy),
          b.out(Grad::kDx),
          b.out(Grad::kDQueryGain),
          b.out(Grad::kDKeyGain),
          b.out(Grad::kDSquares)};
}

void run_grad(const BoundOp& b) {
  for (const size_t gain : {Grad::kDQueryGain, Grad::kDKeyGain}) b.clear_if_fresh(gain);
  b.run(grad_args(b));
}

kernels::HeadSquaresArgs squares_args(const BoundOp& b) {
  return {b.in(HeadSquares::kQkv), b.out(HeadSquares::kSquares)};
}

void run_squares_grad(const BoundOp& b) {
  using Squares = HeadSquaresGrad;
  b.copy_unless_shared(b.in(Squares::kSoFar), b.out(Squares::kDx));
  b.run(kernels::HeadSquaresGradArgs{b.in(Squares::kQkv), b.in(Squares::kDSquares),
                                     b.out(Squares::kDx)});
}

}  // namespace

template <>
const Binding& binding_for<HeadNorm>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<HeadNormGrad>() {
  static constexpr Binding kBinding = {run_grad, workspace_of<grad_args>};
  return kBinding;
}
template <>
const Binding& binding_for<HeadSquares>() {
  static constexpr Binding kBinding = kernel<squares_args>();
  return kBinding;
}
template <>
const Binding& binding_for<HeadSquaresGrad>() {
  static constexpr Binding kBinding = {run_squares_grad};
  return kBinding;
}

}  // namespace tessera::runtime
