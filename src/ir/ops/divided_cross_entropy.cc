// The cross-entropy of logits z whose vocabulary is divided over ranks, with a reduction after each
// of the first two:
//   logits_max             m[b,t] = max_v z[b,t,v]
//   logits_sums            s[b,t] = (Σ_v e^(z[b,t,v] − m[b,t]),  z[b,t,label] − m[b,t])
//   divided_cross_entropy  report += (Σ ln s₀ − s₁, number of labels ≥ 0); with attribute
//   `gradient`,
//                          dz = e^(z − m) / s₀ − onehot as well; with `scaled`, times the loss
//                          scale of the last input, the step
// Every rank of the division knows the whole loss, so one of them adds it to the report.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"
#include "ir/state.h"

namespace tessera {
namespace {

Shape rows_of(const Shape& logits, std::vector<int64_t> last = {}) {
  std::vector<int64_t> dims = logits.dims();
  dims.pop_back();
  dims.insert(dims.end(), last.begin(), last.end());
  return Shape(dims);
}

std::vector<OutputSpec> infer_max(const Attributes&, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->dtype == DType::kF32, "logits_max takes f32 logits");
  return {{".max", DType::kF32, rows_of(in[0]->shape)}};
}
std::vector<OutputSpec> infer_sums(const Attributes&, const Inputs& in) {
  CHECK(in.size() == 3 && in[2]->dtype == DType::kI32, "logits_sums takes logits, max and labels");
  return {{".sums", DType::kF32, rows_of(in[0]->shape, {2})}};
}
std::vector<OutputSpec> infer_loss(const Attributes& a, const Inputs& in) {
  const size_t scaled = a.integer("scaled") != 0 ? 1 : 0;
  CHECK(in.size() == 4 + scaled && in[3]->dtype == DType::kI32,
        "divided_cross_entropy takes logits, max, sums and labels");
  std::vector<OutputSpec> out = {{".report", DType::kF64, {kReportSize}}};
  if (a.integer("gradient")) out.push_back({".gradient", DType::kF32, in[0]->shape});
  return out;
}

ShardingRule sharding_max(const Op&, ValueSpan) { return {{"btv"}, {"bt"}, "btv", {}, true}; }
ShardingRule sharding_sums(const Op&, ValueSpan) {
  return {{"btv", "bt", "bt"}, {"bts"}, "btv", {}};
}
ShardingRule sharding_loss(const Op& op, ValueSpan) {
  ShardingRule r{{"btv", "bt", "bts", "bt"}, {"r"}, "btv", {}, false, true};
  if (op.attributes.integer("scaled")) r.inputs.push_back("s");
  if (op.outputs.size() > 1) r.outputs.push_back("btv");
  return r;
}

void gradient(Gradients& g, const Op& op) {
  const auto out = g.builder().emit(OpKind::kDividedCrossEntropy, op.origin,
                                    {{"gradient", int64_t{1}}}, op.inputs, {g.report()});
  g.add(op.inputs[0], out[1]);
}

}  // namespace

const OpRule kLogitsMaxRule = {
    .kind = OpKind::kLogitsMax, .name = "logits_max", .infer = infer_max, .sharding = sharding_max};
const OpRule kLogitsSumsRule = {.kind = OpKind::kLogitsSums,
                                .name = "logits_sums",
                                .infer = infer_sums,
                                .sharding = sharding_sums};
const OpRule kDividedCrossEntropyRule = {.kind = OpKind::kDividedCrossEntropy,
                                         .name = "divided_cross_entropy",
                                         .infer = infer_loss,
                                         .sharding = sharding_loss,
                                         .gradient = gradient,
                                         .in_place = over_logits,
                                         .effects = {.loss = true, .adds_to_report = true}};

}  // namespace tessera
