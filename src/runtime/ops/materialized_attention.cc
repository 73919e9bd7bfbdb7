// Bindings of unfused attention: scores, softmax and mix, and their gradients.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::AttentionScoresArgs scores_args(const BoundOp& b) {
  const AttentionScores& of = b.op->as<AttentionScores>();
  return {b.in(AttentionScores::kQkv), static_cast<float>(of.scale),
          b.out(AttentionScores::kScores), of.window, static_cast<float>(of.soft_cap)};
}

kernels::AttentionScoresGradArgs scores_grad_args(const BoundOp& b) {
  const AttentionScores& of = b.op->as<AttentionScoresGrad>().of;
  return {b.in(AttentionScoresGrad::kQkv), static_cast<float>(of.scale),
          b.in(AttentionScoresGrad::kDScores), b.out(AttentionScoresGrad::kDQkv),
          static_cast<float>(of.soft_cap)};
}

void run_scores_grad(const BoundOp& b) {
  // The v slice was computed by attention_mix_grad; the kernel writes only the q and k slices.
  b.copy_unless_shared(b.in(AttentionScoresGrad::kSoFar), b.out(AttentionScoresGrad::kDQkv));
  b.run(scores_grad_args(b));
}

kernels::SoftmaxArgs softmax_args(const BoundOp& b) {
  return {b.in(Softmax::kScores), b.out(Softmax::kProbabilities), b.in(Softmax::kSinks),
          b.out(Softmax::kLse)};
}

kernels::SoftmaxGradArgs softmax_grad_args(const BoundOp& b) {
  return {b.in(SoftmaxGrad::kProbabilities), b.in(SoftmaxGrad::kDProbabilities),
          b.out(SoftmaxGrad::kDScores)};
}

kernels::AttentionMixArgs mix_args(const BoundOp& b) {
  return {b.in(AttentionMix::kQkv), b.in(AttentionMix::kProbabilities), b.out(AttentionMix::kOut)};
}

kernels::AttentionMixGradArgs mix_grad_args(const BoundOp& b) {
  return {b.in(AttentionMixGrad::kQkv), b.in(AttentionMixGrad::kProbabilities),
          b.in(AttentionMixGrad::kDOut), b.out(AttentionMixGrad::kDProbabilities),
          b.out(AttentionMixGrad::kDQkv)};
}

}  // namespace

template <>
const Binding& binding_for<AttentionScores>() {
  static constexpr Binding kBinding = kernel<scores_args>();
  return kBinding;
}
template <>
const Binding& binding_for<AttentionScoresGrad>() {
  static constexpr Binding kBinding = {run_scores_grad, workspace_of<scores_grad_args>};
  return kBinding;
}
template <>
const Binding& binding_for<Softmax>() {
  static constexpr Binding kBinding = kernel<softmax_args>();
  return kBinding;
}
template <>
const Binding& binding_for<SoftmaxGrad>() {
  static constexpr Binding kBinding = kernel<softmax_grad_args>();
  return kBinding;
}
template <>
const Binding& binding_for<AttentionMix>() {
  static constexpr Binding kBinding = kernel<mix_args>();
  return kBinding;
}
template <>
const Binding& binding_for<AttentionMixGrad>() {
  static constexpr Binding kBinding = kernel<mix_grad_args>();
  return kBinding;
}

}  // namespace tessera::runtime
