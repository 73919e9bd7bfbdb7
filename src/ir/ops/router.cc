// Rules of routing and of router losses. Routing treats tokens independently; a loss and the
// capacity of experts need a whole sequence, so they can only be split by sequences.
//
// The choice of experts is not differentiable; the gradient flows only through the weights of the
// chosen ones. Route therefore saves its scores and its choice, and its gradient reads both. `bias`
// influences the choice and not the weights (loss-free balancing of DeepSeek-V3), so it has no
// gradient.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"
#include "ir/state.h"

namespace tessera {
namespace {

Shape with_last(const Shape& s, int64_t last) {
  std::vector<int64_t> dims = s.dims();
  dims.back() = last;
  return Shape(dims);
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const Route& a = op.as<Route>();
  CHECK(in.size() == input_count(a) && in[0]->shape.rank() == 3 && in[0]->dtype == DType::kF32,
        "route expects logits (f32) and bias");
  const int64_t experts = in[0]->shape[-1];
  CHECK(a.chosen <= experts && experts % a.groups == 0 && a.groups_chosen <= a.groups &&
            a.chosen <= experts / a.groups * a.groups_chosen,
        "{} of {} experts in {} of {} groups", a.chosen, experts, a.groups_chosen, a.groups);
  const Shape chosen = with_last(in[0]->shape, a.chosen);
  return {{".weights", DType::kF32, chosen},
          {".choice", DType::kI32, chosen},
          {".scores", DType::kF32, in[0]->shape}};
}

std::vector<OutputSpec> infer_grad(const Op&, const Inputs& in) {
  CHECK(in.size() == 3 && in[1]->shape == in[2]->shape, "route_grad expects scores, choice and dw");
  return {{".gradient", DType::kF32, in[0]->shape}};
}

ShardingRule sharding(const Op& op, ValueSpan) {
  ShardingRule r{{"bte"}, {"btk", "btk", "bte"}, "bt", {}};
  if (op.as<Route>().bias) r.inputs.push_back("e");
  return r;
}
// Linear in dw: if dw is partial, so are the gradients of the logits.
ShardingRule sharding_grad(const Op&, ValueSpan) {
  return {{"bte", "btk", "btk"}, {"bte"}, "bt", {{2}}};
}

void gradient(Gradients& g, const Op& op) {
  const Route& a = op.as<Route>();
  if (const ValueId bias = input(op, Route::kBias); bias != kNone)
    g.builder().emit(RouterLoad{.experts = g[op.inputs[0]].shape[-1]}, op.origin,
                     {output(op, Route::kChoice)}, {g.weight(bias)});
  const ValueId dw = g.of(output(op, Route::kWeights));
  if (dw == kNone) return;
  g.add(op.inputs[0],
        g.builder().emit_one(RouteGrad{a.score, a.renormalize, a.scale}, op.origin,
                             {output(op, Route::kScores), output(op, Route::kChoice), dw}));
}

std::vector<OutputSpec> infer_capacity(const Op& op, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->dtype == DType::kI32 && in[0]->shape.rank() == 3 &&
            in[0]->shape[-1] <= op.as<ExpertCapacity>().experts,
        "expert_capacity expects the choice");
  return {{"", DType::kI32, in[0]->shape}};
}
// The pairs of a sequence are counted in order, so only sequences can be split.
ShardingRule sharding_capacity(const Op&, ValueSpan) { return {{"btk"}, {"btk"}, "b", {}}; }

std::vector<OutputSpec> infer_loss(const Op&, const Inputs& in) {
  CHECK(in.size() == 4 && in[3]->dtype == DType::kI32,
        "router_loss expects logits, scores, choice and labels");
  return {{".report", DType::kF64, {kReportSize}}};
}

std::vector<OutputSpec> infer_loss_grad(const Op& op, const Inputs& in) {
  CHECK(in.size() == input_count(op.as<RouterLossGrad>()),
        "router_loss_grad expects logits, scores, choice and labels");
  return {{".gradient", DType::kF32, in[0]->shape}};
}

ShardingRule sharding_loss(const Op&, ValueSpan) {
  return {{"bte", "bte", "btk", "bt"}, {"r"}, "b", {}, false, true};
}
ShardingRule sharding_loss_grad(const Op& op, ValueSpan) {
  ShardingRule r{{"bte", "bte", "btk", "bt"}, {"bte"}, "b", {}, false, true};
  if (op.as<RouterLossGrad>().scaled) r.inputs.push_back("s");
  return r;
}

void gradient_of_loss(Gradients& g, const Op& op) {
  const RouterLosses& of = op.as<RouterLoss>().of;
  if (of.balance == 0 && of.z == 0) return;
  g.add(op.inputs[0], g.builder().emit_one(RouterLossGrad{of}, op.origin, op.inputs));
}

std::vector<OutputSpec> infer_load(const Op& op, const Inputs& in) {
  const RouterLoad& a = op.as<RouterLoad>();
  CHECK(in.size() == 1 && in[0]->dtype == DType::kI32, "router_load expects the choice");
  return {{"", a.accum_dtype, {a.experts}}};
}
ShardingRule sharding_load(const Op&, ValueSpan) { return {{"btk"}, {"e"}, "bt", {}}; }

std::vector<OutputSpec> infer_update(const Op&, const Inputs& in) {
  CHECK(in.size() == 2, "balance_update expects loads and report");
  return {{".bias", DType::kF32, in[0]->shape}};
}

}  // namespace

const OpRule RouterLoad::rule = {.infer = infer_load, .sharding = sharding_load};
const OpRule BalanceUpdate::rule = {.infer = infer_update,
                                    .sharding = whole,
                                    .time = TimeGroup::kOptimizer,
                                    .effects = {.updates_weights = true, .flat_state = true}};
const OpRule Route::rule = {.infer = infer, .sharding = sharding, .gradient = gradient};
const OpRule ExpertCapacity::rule = {.infer = infer_capacity, .sharding = sharding_capacity};
const OpRule RouteGrad::rule = {.infer = infer_grad, .sharding = sharding_grad};
const OpRule RouterLoss::rule = {.infer = infer_loss,
                                 .sharding = sharding_loss,
                                 .gradient = gradient_of_loss,
                                 .effects = {.adds_to_report = true}};
const OpRule RouterLossGrad::rule = {.infer = infer_loss_grad, .sharding = sharding_loss_grad};

}  // namespace tessera
