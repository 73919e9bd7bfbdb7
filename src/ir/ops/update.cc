// What an optimizer does with a group's flat frames, where `step` and `report` say how far and
// whether (kernels/update.h and kernels/adafactor.h have the formulas):
//   adamw               weights, moment1, moment2 (and master) from the gradient
//                       (Loshchilov & Hutter 2019)
//   lion                weights, moment1 (and master)                  (Chen et al. 2023)
//   sgd                 weights (, moment1 where `beta1`) (and master)
//   adafactor_sums      of squares of gradients over each row and column, and of weights, from the
//                       rank's own part                                (Shazeer & Stern 2018)
//   adafactor_squares   the running means of rows and columns; sums of squares of each weight's
//                       change, of the rank's own part
//   adafactor           weights (, moment1 where `beta1`) (and master)
// Attributes: `members` names the frame whose table says which elements belong to which weight;
// `weights` and `moments` their types, where not f32; `master`: updates are made in f32 and rounded
// into the weights; `rounding` stochastic | nearest where there is no master.
#include "base/error.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

DType type_of(const Attributes& a, const char* name, DType otherwise) {
  if (!a.has(name)) return otherwise;
  const auto type = dtype_from_name(a.text(name));
  CHECK(type.has_value(), "{} of type {}", name, a.text(name));
  return *type;
}

std::vector<OutputSpec> updated(const Attributes& a, const Shape& s, int moments) {
  const bool master = a.integer("master") != 0;
  const DType kept = type_of(a, "moments", DType::kF32);
  std::vector<OutputSpec> out;
  out.push_back({".weight", type_of(a, "weights", master ? DType::kBF16 : DType::kF32), s});
  for (int i = 1; i <= moments; ++i) out.push_back({fmt::format(".moment{}", i), kept, s});
  if (master) out.push_back({".master", DType::kF32, s});
  return out;
}

std::vector<OutputSpec> infer_adamw(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 3, "adamw takes gradient, step and report");
  return updated(a, in[0]->shape, 2);
}

std::vector<OutputSpec> infer_lion(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 3, "lion takes gradient, step and report");
  return updated(a, in[0]->shape, 1);
}

std::vector<OutputSpec> infer_sgd(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 3, "sgd takes gradient, step and report");
  return updated(a, in[0]->shape, a.number("beta1") > 0 ? 1 : 0);
}

std::vector<OutputSpec> infer_sums(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 3, "adafactor_sums takes gradient, weights and report");
  return {{".factor_sums", DType::kF64, {a.integer("sums")}}};
}

std::vector<OutputSpec> infer_squares(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 4, "adafactor_squares takes gradient, step, report and sums");
  return {{".factors", DType::kF32, {a.integer("factors")}},
          {".update_squares", DType::kF64, {a.integer("weights_held")}}};
}

std::vector<OutputSpec> infer_adafactor(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 6, "adafactor takes gradient, step, report, sums, factors and squares");
  return updated(a, in[0]->shape, a.number("beta1") > 0 ? 1 : 0);
}

// Moments and master weights are read as well as written.
Cost cost_adamw(const Op& op, ValueSpan values) {
  Cost c = sweep_cost(op, values);
  for (size_t i = 1; i < op.outputs.size(); ++i)
    c.moved_bytes += static_cast<double>(values[op.outputs[i]].bytes());
  return c;
}

}  // namespace

const OpRule kAdamwRule = {.kind = OpKind::kAdamw,
                           .name = "adamw",
                           .infer = infer_adamw,
                           .sharding = whole,
                           .cost = cost_adamw,
                           .members = MemberTables::kStretches,
                           .time = TimeGroup::kOptimizer,
                           .effects = {.updates_weights = true, .flat_state = true}};
const OpRule kLionRule = {.kind = OpKind::kLion,
                          .name = "lion",
                          .infer = infer_lion,
                          .sharding = whole,
                          .members = MemberTables::kStretches,
                          .time = TimeGroup::kOptimizer,
                          .effects = {.updates_weights = true, .flat_state = true}};
const OpRule kSgdRule = {.kind = OpKind::kSgd,
                         .name = "sgd",
                         .infer = infer_sgd,
                         .sharding = whole,
                         .members = MemberTables::kStretches,
                         .time = TimeGroup::kOptimizer,
                         .effects = {.updates_weights = true, .flat_state = true}};
const OpRule kAdafactorSumsRule = {.kind = OpKind::kAdafactorSums,
                                   .name = "adafactor_sums",
                                   .infer = infer_sums,
                                   .sharding = whole,
                                   .members = MemberTables::kFactors,
                                   .time = TimeGroup::kOptimizer,
                                   .effects = {.flat_state = true, .measures_part = true}};
const OpRule kAdafactorSquaresRule = {.kind = OpKind::kAdafactorSquares,
                                      .name = "adafactor_squares",
                                      .infer = infer_squares,
                                      .sharding = whole,
                                      .members = MemberTables::kFactors,
                                      .time = TimeGroup::kOptimizer,
                                      .effects = {.flat_state = true, .measures_part = true}};
const OpRule kAdafactorRule = {.kind = OpKind::kAdafactor,
                               .name = "adafactor",
                               .infer = infer_adafactor,
                               .sharding = whole,
                               .members = MemberTables::kFactors,
                               .time = TimeGroup::kOptimizer,
                               .effects = {.updates_weights = true, .flat_state = true}};

}  // namespace tessera
