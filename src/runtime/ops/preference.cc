// Bindings of the losses of preferences.
#include "kernels/preference.h"

#include "ir/state.h"
#include "kernels/vocab_parallel_cross_entropy.h"
#include "runtime/binding.h"
#include "runtime/ops/arguments.h"

namespace tessera::runtime {
namespace {

kernels::LogitsSumsGradArgs logits_args(const BoundOp& b) {
  using Of = LogitsSumsGrad;
  return {divided_logits(b, b.out(Of::kDLogits), b.op->as<Of>().soft_cap), flat(b.in(Of::kMax)),
          flat(b.in(Of::kLabels)), flat(b.in(Of::kDSums))};
}

void run_logits(const BoundOp& b) {
  b.copy_unless_shared(b.in(LogitsSumsGrad::kLogits), b.out(LogitsSumsGrad::kDLogits));
  b.run(logits_args(b));
}

kernels::AnswerSumsArgs sums_args(const BoundOp& b) {
  return {b.op->as<AnswerSums>().log_probs, b.in(AnswerSums::kX), b.in(AnswerSums::kAnswersOf),
          b.out(AnswerSums::kSums)};
}

kernels::AnswerSumsGradArgs sums_grad_args(const BoundOp& b) {
  using Of = AnswerSumsGrad;
  return {b.op->as<Of>().log_probs, b.in(Of::kX), b.in(Of::kAnswersOf), b.in(Of::kDSums),
          b.out(Of::kDX)};
}

kernels::PreferenceLossArgs loss_args(const BoundOp& b) {
  using Of = PreferenceLoss;
  const TensorView report = b.out(Of::kReport);
  kernels::PreferenceLossArgs a;
  a.form = form_of(b.op->as<Of>().terms);
  a.sums = b.in(Of::kSums);
  a.references = b.in(Of::kReferences);
  a.report = loss_sum(b, report, b.op->inputs[Of::kReferences]);
  a.figures = a.report == nullptr ? nullptr : number_at(report, kChosenReward);
  a.loss_scale = loss_scale(b.in(Of::kStep));
  a.d_sums = b.out(Of::kDSums);
  return a;
}

}  // namespace

kernels::PreferenceForm form_of(const PreferenceTerms& t) {
  return {static_cast<kernels::PreferenceLossKind>(t.kind),
          t.mean,
          t.beta,
          t.gamma,
          t.label_smoothing,
          t.desirable_weight,
          t.undesirable_weight};
}

template <>
const Binding& binding_for<LogitsSumsGrad>() {
  static constexpr Binding kBinding = {run_logits};
  return kBinding;
}
template <>
const Binding& binding_for<AnswerSums>() {
  static constexpr Binding kBinding = kernel<sums_args>();
  return kBinding;
}
template <>
const Binding& binding_for<AnswerSumsGrad>() {
  static constexpr Binding kBinding = kernel<sums_grad_args>();
  return kBinding;
}
template <>
const Binding& binding_for<PreferenceLoss>() {
  static constexpr Binding kBinding = kernel<loss_args>();
  return kBinding;
}

}  // namespace tessera::runtime
