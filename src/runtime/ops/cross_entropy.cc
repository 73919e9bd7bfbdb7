// Bindings of cross-entropy over whole rows of logits, unfused and fused with the LM head.
#include "ir/state.h"
#include "kernels/linear_cross_entropy.h"
#include "runtime/binding.h"
#include "runtime/ops/arguments.h"

namespace tessera::runtime {

namespace {

// The report is summed over all ranks at the end. Ranks along an axis that does not split the
// labels have the same labels and compute the same loss; only the first of them adds it.
bool adds_loss(const BoundOp& b, ValueId labels) {
  if (b.position == nullptr) return false;
  for (const AxisKind a : Enumerators<AxisKind>())
    if (a != AxisKind::kPipeline && b.values[labels].sharding.place[a] < 0 && b.position->at[a] > 0)
      return false;
  return true;
}

}  // namespace

double* loss_sum(const BoundOp& b, const TensorView& report, ValueId labels,
                 const LossTerms& terms) {
  static_assert(kLossTokens == kLossSum + 1 && kMtpTokens == kMtpLoss + 1);
  if (!adds_loss(b, labels)) return nullptr;
  return number_at(report, terms.mtp ? kMtpLoss : kLossSum);
}

double* z_loss_sum(const BoundOp& b, const TensorView& report, ValueId labels,
                   const LossTerms& terms) {
  return terms.z_loss > 0 && adds_loss(b, labels) ? number_at(report, kZLoss) : nullptr;
}

kernels::LossExtras extras_of(const LossTerms& terms) {
  return {static_cast<float>(terms.z_loss), static_cast<float>(terms.label_smoothing)};
}

const double* loss_scale(const TensorView& step) { return number_at(step, kLossScale); }

namespace {

kernels::CrossEntropyArgs args(const BoundOp& b) {
  const LossTerms& terms = b.op->as<CrossEntropy>().terms;
  const bool gradient = b.op->as<CrossEntropy>().gradient;
  const ValueId labels = b.op->inputs[CrossEntropy::kLabels];
  const TensorView logits = b.in(CrossEntropy::kLogits);
  kernels::CrossEntropyArgs a;
  // Without a gradient, the logits are not overwritten.
  a.logits = as_rows(gradient ? b.out(CrossEntropy::kDLogits) : logits, logits.shape[-1]);
  a.labels = flat(b.in(CrossEntropy::kLabels));
  a.report = loss_sum(b, b.out(CrossEntropy::kReport), labels, terms);
  a.gradient = gradient;
  a.gradient_scale = static_cast<float>(terms.weight);
  a.soft_cap = static_cast<float>(terms.soft_cap);
  a.extras = extras_of(terms);
  a.z_report = z_loss_sum(b, b.out(CrossEntropy::kReport), labels, terms);
  a.loss_scale = loss_scale(b.in(CrossEntropy::kStep));
  return a;
}

void run(const BoundOp& b) {
  if (b.op->as<CrossEntropy>().gradient)
    b.copy_unless_shared(b.in(CrossEntropy::kLogits), b.out(CrossEntropy::kDLogits));
  b.run(args(b));
}

using Linear = LinearCrossEntropy;

void run_linear(const BoundOp& b) {
  const Linear& of = b.op->as<Linear>();
  kernels::LinearCrossEntropyOperands a;
  a.x = b.in(Linear::kX).data;
  a.weight = b.in(Linear::kW).data;
  a.labels = b.in(Linear::kLabels).as<int32_t>();
  const ValueId labels = b.op->inputs[Linear::kLabels];
  a.report = loss_sum(b, b.out(Linear::kReport), labels, of.terms);
  a.z_report = z_loss_sum(b, b.out(Linear::kReport), labels, of.terms);
  if (of.gradient) {
    a.dx = b.out(Linear::kDx).data;
    a.dweight = b.out(Linear::kDw).data;
    a.fresh = b.is_fresh(Linear::kDw);
    a.gradient_scale = static_cast<float>(of.terms.weight);
    a.loss_scale = loss_scale(b.in(Linear::kStep));
  }
  static_cast<const kernels::LmHead*>(b.prepared)->run(b.launch, a);
}

int64_t linear_workspace(const BoundOp& b) { return b.prepared->workspace_bytes(); }

}  // namespace

template <>
const Binding& binding_for<CrossEntropy>() {
  static constexpr Binding kBinding = {run, workspace_of<args>};
  return kBinding;
}
template <>
const Binding& binding_for<LinearCrossEntropy>() {
  static constexpr Binding kBinding = {run_linear, linear_workspace};
  return kBinding;
}

}  // namespace tessera::runtime
