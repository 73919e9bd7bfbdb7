// Rules of the updates of optimizers.
#include "base/error.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> updated(const WeightUpdate& a, const Shape& s, int moments) {
  std::vector<OutputSpec> out;
  const DType weights = a.weights.value_or(a.master ? DType::kBF16 : DType::kF32);
  out.push_back({".weight", weights, s});
  for (int i = 1; i <= moments; ++i) out.push_back({fmt::format(".moment{}", i), a.moments, s});
  if (a.master) out.push_back({".master", DType::kF32, s});
  return out;
}

std::vector<OutputSpec> infer_adamw(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3, "adamw takes gradient, step and report");
  return updated(op.as<Adamw>().update, in[0]->shape, 2);
}

std::vector<OutputSpec> infer_lion(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3, "lion takes gradient, step and report");
  return updated(op.as<Lion>().update, in[0]->shape, 1);
}

std::vector<OutputSpec> infer_sgd(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3, "sgd takes gradient, step and report");
  const WeightUpdate& a = op.as<Sgd>().update;
  return updated(a, in[0]->shape, a.beta1 > 0 ? 1 : 0);
}

std::vector<OutputSpec> infer_sums(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3, "adafactor_sums takes gradient, weights and report");
  return {{".factor_sums", DType::kF64, {op.as<AdafactorSums>().of.sums}}};
}

std::vector<OutputSpec> infer_squares(const Op& op, const Inputs& in) {
  CHECK(in.size() == 4, "adafactor_squares takes gradient, step, report and sums");
  const FactorSums& a = op.as<AdafactorSquares>().of;
  return {{".factors", DType::kF32, {a.factors}},
          {".update_squares", DType::kF64, {a.weights_held}}};
}

std::vector<OutputSpec> infer_adafactor(const Op& op, const Inputs& in) {
  CHECK(in.size() == 6, "adafactor takes gradient, step, report, sums, factors and squares");
  const WeightUpdate& a = op.as<Adafactor>().update;
  return updated(a, in[0]->shape, a.beta1 > 0 ? 1 : 0);
}

// Moments and master weights are read as well as written.
Cost cost_adamw(const Op& op, ValueSpan values) {
  Cost c = sweep_cost(op, values);
  for (size_t i = 1; i < op.outputs.size(); ++i)
    c.moved_bytes += static_cast<double>(values[op.outputs[i]].bytes());
  return c;
}

}  // namespace

const OpRule Adamw::rule = {.infer = infer_adamw,
                            .sharding = whole,
                            .cost = cost_adamw,
                            .members = MemberTables::kStretches,
                            .time = TimeGroup::kOptimizer,
                            .effects = {.updates_weights = true, .flat_state = true}};
const OpRule Lion::rule = {.infer = infer_lion,
                           .sharding = whole,
                           .members = MemberTables::kStretches,
                           .time = TimeGroup::kOptimizer,
                           .effects = {.updates_weights = true, .flat_state = true}};
const OpRule Sgd::rule = {.infer = infer_sgd,
                          .sharding = whole,
                          .members = MemberTables::kStretches,
                          .time = TimeGroup::kOptimizer,
                          .effects = {.updates_weights = true, .flat_state = true}};
const OpRule AdafactorSums::rule = {.infer = infer_sums,
                                    .sharding = whole,
                                    .members = MemberTables::kFactors,
                                    .time = TimeGroup::kOptimizer,
                                    .effects = {.flat_state = true, .measures_part = true}};
const OpRule AdafactorSquares::rule = {.infer = infer_squares,
                                       .sharding = whole,
                                       .members = MemberTables::kFactors,
                                       .time = TimeGroup::kOptimizer,
                                       .effects = {.flat_state = true, .measures_part = true}};
const OpRule Adafactor::rule = {.infer = infer_adafactor,
                                .sharding = whole,
                                .members = MemberTables::kFactors,
                                .time = TimeGroup::kOptimizer,
                                .effects = {.updates_weights = true, .flat_state = true}};

}  // namespace tessera
