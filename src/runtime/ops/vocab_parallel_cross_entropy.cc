// Bindings of vocabulary-parallel cross-entropy, in three ops with a reduction over the tensor
// ranks between them: the maximum of each row; the sum of exponentials above it and the label's
// logit; then the loss and its gradient from the sums of all ranks.
#include "runtime/binding.h"
#include "runtime/ops/arguments.h"

namespace tessera::runtime {

kernels::DividedLogits divided_logits(const BoundOp& b, const TensorView& z, double soft_cap) {
  const ValueId v = b.op->inputs[0];
  const GlobalBox e = b.extents(v);
  kernels::DividedLogits l;
  l.z = z;
  l.first = e.begin.back();
  l.columns = e.end.back() - e.begin.back();
  l.total = b.values[v].shape[-1];
  l.soft_cap = static_cast<float>(soft_cap);
  return l;
}

namespace {

kernels::LogitsMaxArgs max_args(const BoundOp& b) {
  return {divided_logits(b, b.in(LogitsMax::kLogits), b.op->as<LogitsMax>().soft_cap),
          flat(b.out(LogitsMax::kMax))};
}

kernels::LogitsSumsArgs sums_args(const BoundOp& b) {
  return {divided_logits(b, b.in(LogitsSums::kLogits), b.op->as<LogitsSums>().soft_cap),
          flat(b.in(LogitsSums::kMax)), flat(b.in(LogitsSums::kLabels)),
          flat(b.out(LogitsSums::kSums))};
}

using Loss = VocabParallelCrossEntropy;

kernels::VocabParallelCrossEntropyArgs args(const BoundOp& b) {
  kernels::VocabParallelCrossEntropyArgs a;
  const Loss& of = b.op->as<Loss>();
  a.gradient = of.gradient;
  a.logits = divided_logits(b, a.gradient ? b.out(Loss::kDLogits) : b.in(Loss::kLogits),
                            of.terms.soft_cap);
  a.max = flat(b.in(Loss::kMax));
  a.sums = flat(b.in(Loss::kSums));
  a.labels = flat(b.in(Loss::kLabels));
  const ValueId labels = b.op->inputs[Loss::kLabels];
  a.report = loss_sum(b, b.out(Loss::kReport), labels, of.terms);
  a.gradient_scale = static_cast<float>(of.terms.weight);
  a.extras = extras_of(of.terms);
  a.z_report = z_loss_sum(b, b.out(Loss::kReport), labels, of.terms);
  a.loss_scale = loss_scale(b.in(Loss::kStep));
  return a;
}

void run(const BoundOp& b) {
  if (b.op->as<Loss>().gradient) b.copy_unless_shared(b.in(Loss::kLogits), b.out(Loss::kDLogits));
  b.run(args(b));
}

}  // namespace

template <>
const Binding& binding_for<LogitsMax>() {
  static constexpr Binding kBinding = kernel<max_args>();
  return kBinding;
}
template <>
const Binding& binding_for<LogitsSums>() {
  static constexpr Binding kBinding = kernel<sums_args>();
  return kBinding;
}
template <>
const Binding& binding_for<VocabParallelCrossEntropy>() {
  static constexpr Binding kBinding = {run};
  return kBinding;
}

}  // namespace tessera::runtime
