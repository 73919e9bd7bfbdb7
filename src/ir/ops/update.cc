// Rules of the optimizers' updates. They work on flat buffers; outputs are updated in place.
#include "base/error.h"
#include "base/moment_code.h"
#include "ir/op.h"
#include "ir/ops/rules.h"

namespace tessera {

// The order of outputs is fixed (weights, iterates, moments, scales of moments in 8 bits, masters),
// because the bindings depend on it.
std::vector<OutputSpec> updated_state(const WeightUpdate& a, const Shape& s, int moments,
                                      bool iterate) {
  std::vector<OutputSpec> out;
  const DType weights = a.weights.value_or(a.master ? DType::kBF16 : DType::kF32);
  out.push_back({".weight", weights, s});
  if (iterate) out.push_back({".iterate", DType::kF32, s});
  for (int i = 1; i <= moments; ++i) out.push_back({fmt::format(".moment{}", i), a.moments, s});
  if (a.moments == DType::kU8) {
    const Shape blocks = {(s.elements() + kMomentBlock - 1) / kMomentBlock};
    for (int i = 1; i <= moments; ++i)
      out.push_back({fmt::format(".moment{}_scale", i), DType::kF32, blocks});
  }
  if (a.master) out.push_back({".master", DType::kF32, s});
  return out;
}

// Moments, means and master weights are read as well as written.
Cost update_cost(const Op& op, ValueSpan values) {
  Cost c = sweep_cost(op, values);
  for (size_t i = op.is<WeightAverage>() ? 0 : 1; i < op.outputs.size(); ++i)
    c.moved_bytes += bytes_of(values, op.outputs[i]);
  return c;
}

namespace {

// Returns the number of moments that an optimizer with these constants has.
int moments_of(const OptimizerTraits& o, const WeightUpdate& a) {
  return (o.moment1 || (a.beta1 > 0 && !o.averages) ? 1 : 0) + (o.moment2 ? 1 : 0);
}

std::vector<OutputSpec> infer_one_pass(const Op& op, const Inputs& in) {
  const auto [kind, a] = one_pass_of(op);
  const OptimizerTraits& o = traits_of(kind);
  CHECK(in.size() == 3, "{} expects gradient, step and report", o.name);
  return updated_state(*a, in[0]->shape, moments_of(o, *a), o.averages);
}

std::vector<OutputSpec> infer_average(const Op&, const Inputs& in) {
  CHECK(in.size() == 2, "weight_average expects weights and report");
  return {{".average", DType::kF32, in[0]->shape}};
}

std::vector<OutputSpec> infer_sums(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3, "adafactor_sums expects gradient, weights and report");
  return {{".factor_sums", DType::kF64, {op.as<AdafactorSums>().of.sums}}};
}

std::vector<OutputSpec> infer_squares(const Op& op, const Inputs& in) {
  CHECK(in.size() == 4, "adafactor_squares expects gradient, step, report and sums");
  const FactorSums& a = op.as<AdafactorSquares>().of;
  return {{".factors", DType::kF32, {a.factors}},
          {".update_squares", DType::kF64, {a.weights_held}}};
}

std::vector<OutputSpec> infer_adafactor(const Op& op, const Inputs& in) {
  CHECK(in.size() == 6, "adafactor expects gradient, step, report, sums, factors and squares");
  const WeightUpdate& a = op.as<Adafactor>().update;
  return updated_state(a, in[0]->shape, moments_of(traits_of(OptimizerKind::kAdafactor), a));
}

}  // namespace

const OpRule kOnePassUpdateRule = {.infer = infer_one_pass,
                                   .sharding = whole,
                                   .cost = update_cost,
                                   .members = MemberTables::kRuns,
                                   .time = TimeGroup::kOptimizer,
                                   .effects = {.updates_weights = true, .flat_state = true}};
const OpRule WeightAverage::rule = {.infer = infer_average,
                                    .sharding = whole,
                                    .cost = update_cost,
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
