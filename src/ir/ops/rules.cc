#include "ir/ops/rules.h"

#include <array>

#include "base/error.h"

namespace tessera {
namespace {

// In the order of OpKind.
constexpr std::array kRules = {&kEmbeddingRule,
                               &kEmbeddingGradRule,
                               &kNormRule,
                               &kNormGradRule,
                               &kRmsNormRule,
                               &kRmsNormGradRule,
                               &kMatmulRule,
                               &kMatmulGradInputRule,
                               &kMatmulGradWeightRule,
                               &kRotaryRule,
                               &kRepeatHeadsRule,
                               &kRepeatHeadsGradRule,
                               &kJoinHeadsRule,
                               &kJoinHeadsGradRule,
                               &kAttentionRule,
                               &kAttentionGradRule,
                               &kCachedAttentionRule,
                               &kAttentionScoresRule,
                               &kAttentionScoresGradRule,
                               &kSoftmaxRule,
                               &kSoftmaxGradRule,
                               &kAttentionMixRule,
                               &kAttentionMixGradRule,
                               &kGeluRule,
                               &kGeluGradRule,
                               &kGatedActivationRule,
                               &kGatedActivationGradRule,
                               &kSumRule,
                               &kScaleRule,
                               &kAccumulateRule,
                               &kBiasGradRule,
                               &kDropoutRule,
                               &kDropoutGradRule,
                               &kCastRule,
                               &kCopyRule,
                               &kCrossEntropyRule,
                               &kLinearCrossEntropyRule,
                               &kLogitsMaxRule,
                               &kLogitsSumsRule,
                               &kDividedCrossEntropyRule,
                               &kClearRule,
                               &kPackRule,
                               &kSquaresRule,
                               &kClipRule,
                               &kAdamwRule,
                               &kLionRule,
                               &kSgdRule,
                               &kAdafactorSumsRule,
                               &kAdafactorSquaresRule,
                               &kAdafactorRule,
                               &kAllReduceRule,
                               &kReduceScatterRule,
                               &kAllGatherRule,
                               &kSliceRule,
                               &kPadRule,
                               &kShareRule,
                               &kSendRule,
                               &kReceiveRule};
static_assert(kRules.size() == static_cast<size_t>(OpKind::kCount));

}  // namespace

DType sum_type(const Attributes& a) {
  if (!a.has("into")) return DType::kF32;
  const auto type = dtype_from_name(a.text("into"));
  CHECK(type.has_value(), "a sum in '{}'", a.text("into"));
  return *type;
}

const OpRule& rule_of(OpKind kind) {
  const OpRule& r = *kRules.at(static_cast<size_t>(kind));
  CHECK(r.kind == kind, "the table of rules is out of order at {}", r.name);
  return r;
}

const OpRule* rule_named(std::string_view name) {
  for (const OpRule* r : kRules)
    if (r->name == name) return r;
  return nullptr;
}

Cost sweep_cost(const Op& op, ValueSpan values) {
  Cost c;
  for (const ValueId v : op.inputs) c.bytes += static_cast<double>(values[v].bytes());
  for (const ValueId v : op.outputs) c.bytes += static_cast<double>(values[v].bytes());
  c.moved_bytes = c.bytes;
  return c;
}

Cost product_cost(const Op& op, ValueSpan values, Work work, std::vector<ProductShape> products) {
  Cost c = sweep_cost(op, values);
  c.work = work;
  double flops = 0;
  for (const ProductShape& p : products) flops += p.flops();
  c.flops = {flops, flops, flops};
  c.products = std::move(products);
  return c;
}

InPlace in_place_of(const Op& op) {
  const OpRule& rule = rule_of(op);
  return rule.in_place == nullptr ? InPlace{} : rule.in_place(op);
}

InPlace over_first(const Op&) { return {0, 0}; }
InPlace over_last(const Op& op) { return {static_cast<int>(op.inputs.size()) - 1, 0}; }
InPlace over_logits(const Op& op) { return op.outputs.size() > 1 ? InPlace{0, 1} : InPlace{}; }

bool changes_state(const Op& op, Role output) {
  return rule_of(op).effects.updates_weights || output == Role::kCache || output == Role::kFactor;
}

}  // namespace tessera
