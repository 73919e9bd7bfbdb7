// Bindings of norms, with and without a fused sum before them.
#include "base/error.h"
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

using kernels::NormKind;

template <class A>
kernels::NormOutput output_of(const BoundOp& b) {
  TensorView bias;
  if constexpr (requires { A::kBias; }) bias = b.in(A::kBias);
  return {b.in(A::kGain), bias, as_rows(b.out(A::kY), b.inputs[0].shape[-1])};
}

// A is the op: Norm or RmsNorm.
template <class A, NormKind kKind>
void run(const BoundOp& b) {
  const A& a = b.op->as<A>();
  const int64_t d = b.inputs[0].shape[-1];
  kernels::Norm norm;
  norm.kind = kKind;
  norm.epsilon = static_cast<float>(a.epsilon);
  norm.outputs = {output_of<A>(b)};
  norm.stats = as_rows(b.out(A::kStats), 2);
  if constexpr (requires { a.unit_offset; }) norm.unit_offset = a.unit_offset;
  if (!a.sums()) return b.run(kernels::NormArgs{as_rows(b.inputs[0], d), norm});
  kernels::SumNormArgs args = {{{}, {}, as_rows(b.out(A::kSum), d)}, norm};
  const auto terms = static_cast<size_t>(a.terms), biases = static_cast<size_t>(a.biases);
  const int64_t columns = biases > 0 ? b.inputs[terms].elements() : d;
  for (size_t i = 0; i < terms; ++i) args.sum.terms.push_back(as_rows(b.inputs[i], columns));
  for (size_t i = 0; i < biases; ++i) args.sum.biases.push_back(flat(b.inputs[terms + i]));
  b.run(args);
}

template <class A, NormKind kKind>
kernels::NormGradArgs grad_args(const BoundOp& b) {
  const int64_t d = b.in(A::kX).shape[-1];
  kernels::NormGradArgs a;
  a.kind = kKind;
  a.x = as_rows(b.in(A::kX), d);
  a.stats = as_rows(b.in(A::kStats), 2);
  a.gain = b.in(A::kGain);
  a.dy = as_rows(b.in(A::kDy), d);
  a.dx = as_rows(b.out(A::kDx), d);
  a.accumulate_dx = b.op->as<A>().add;
  if constexpr (kKind == NormKind::kRms) a.unit_offset = b.op->as<A>().unit_offset;
  a.dgain = b.out(A::kDGain);
  if constexpr (requires { A::kDBias; }) a.dbias = b.out(A::kDBias);
  return a;
}

template <class A, NormKind kKind>
void run_grad(const BoundOp& b) {
  const kernels::NormGradArgs args = grad_args<A, kKind>(b);
  // dx is added to the gradient of the residual branch. The kernel adds in place, so that gradient
  // is copied first.
  if (args.accumulate_dx && b.in(A::kSoFar).data != args.dx.data)
    b.run(kernels::CastArgs{flat(b.in(A::kSoFar)), flat(args.dx)});
  for (size_t gradient = 1; gradient < b.outputs.size(); ++gradient) b.clear_if_fresh(gradient);
  b.run(args);
}

template <class A, NormKind kKind>
constexpr Binding kGradient = {run_grad<A, kKind>, workspace_of<grad_args<A, kKind>>};

}  // namespace

template <>
const Binding& binding_for<Norm>() {
  static constexpr Binding kBinding = {run<Norm, NormKind::kLayer>};
  return kBinding;
}
template <>
const Binding& binding_for<RmsNorm>() {
  static constexpr Binding kBinding = {run<RmsNorm, NormKind::kRms>};
  return kBinding;
}
template <>
const Binding& binding_for<NormGrad>() {
  return kGradient<NormGrad, NormKind::kLayer>;
}
template <>
const Binding& binding_for<RmsNormGrad>() {
  return kGradient<RmsNormGrad, NormKind::kRms>;
}

}  // namespace tessera::runtime
