// Rules of preference losses. Sums over the tokens of an answer are partial where ranks divide a
// sequence, and the shard pass completes them before the loss, which is not linear in them.
#include "ir/ops/preference.h"

#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"
#include "ir/state.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer_logits_grad(const Op&, const Inputs& in) {
  CHECK(in.size() == 4 && in[0]->dtype == DType::kF32 && in[2]->dtype == DType::kI32,
        "logits_sums_grad expects logits, max, labels and the gradient of the sums");
  return {{".gradient", DType::kF32, in[0]->shape}};
}
ShardingRule sharding_logits_grad(const Op&, ValueSpan) {
  return {{"btv", "bt", "bt", "bts"}, {"btv"}, "btv", {{3}}};
}

Shape sums_shape(const Shape& x) { return {x[0], kAnswersPerRow, kAnswerColumns}; }

std::vector<OutputSpec> infer_sums(const Op& op, const Inputs& in) {
  const int64_t terms = op.as<AnswerSums>().log_probs ? 2 : 1;
  CHECK(in.size() == 2 && in[0]->dtype == DType::kF32 && in[0]->shape.rank() == 3 &&
            in[0]->shape[2] == terms && in[1]->dtype == DType::kI32,
        "answer_sums expects [B, T, {}] f32 and the answers of the positions", terms);
  return {{".answers", DType::kF64, sums_shape(in[0]->shape)}};
}
ShardingRule sharding_sums(const Op&, ValueSpan) { return {{"bts", "bt"}, {"bac"}, "bt", {}}; }

std::vector<OutputSpec> infer_sums_grad(const Op&, const Inputs& in) {
  CHECK(in.size() == 3 && in[2]->dtype == DType::kF64,
        "answer_sums_grad expects the operands of answer_sums and a gradient");
  return {{".gradient", DType::kF32, in[0]->shape}};
}
ShardingRule sharding_sums_grad(const Op&, ValueSpan) {
  return {{"bts", "bt", "bac"}, {"bts"}, "bt", {{2}}};
}

void gradient_of_sums(Gradients& g, const Op& op) {
  const ValueId d = g.of(op.outputs[0]);
  if (d == kNone) return;
  g.add(op.inputs[0], g.builder().emit_one(AnswerSumsGrad{op.as<AnswerSums>().log_probs}, op.origin,
                                           {op.inputs[0], op.inputs[1], d}));
}

std::vector<OutputSpec> infer_loss(const Op& op, const Inputs& in) {
  const PreferenceLoss& a = op.as<PreferenceLoss>();
  CHECK(in.size() == input_count(a) && in[0]->dtype == DType::kF64 && in[0]->shape.rank() == 3,
        "preference_loss expects sums of answers and references");
  CHECK(in[1]->dtype == DType::kF64 && in[1]->shape == Shape({in[0]->shape[0], kReferenceColumns}),
        "the references are {}", to_string(in[1]->shape));
  std::vector<OutputSpec> out = {{".report", DType::kF64, {kReportSize}}};
  if (a.gradient) out.push_back({".gradient", DType::kF64, in[0]->shape});
  return out;
}
ShardingRule sharding_loss(const Op& op, ValueSpan) {
  const PreferenceLoss& a = op.as<PreferenceLoss>();
  ShardingRule r{{"bac", "bf"}, {"r"}, "b", {}, false, true};
  if (a.scaled) r.inputs.push_back("s");
  if (a.gradient) r.outputs.push_back("bac");
  return r;
}

void gradient_of_loss(Gradients& g, const Op& op) {
  const PreferenceLoss a = {.terms = op.as<PreferenceLoss>().terms, .gradient = true};
  g.add(op.inputs[0], g.builder().emit(a, op.origin, op.inputs, {g.report()})[1]);
}

}  // namespace

const OpRule LogitsSumsGrad::rule = {
    .infer = infer_logits_grad, .sharding = sharding_logits_grad, .in_place = over_first};
const OpRule AnswerSums::rule = {
    .infer = infer_sums, .sharding = sharding_sums, .gradient = gradient_of_sums};
const OpRule AnswerSumsGrad::rule = {.infer = infer_sums_grad, .sharding = sharding_sums_grad};
const OpRule PreferenceLoss::rule = {.infer = infer_loss,
                                     .sharding = sharding_loss,
                                     .gradient = gradient_of_loss,
                                     .effects = {.loss = true, .adds_to_report = true}};

}  // namespace tessera
