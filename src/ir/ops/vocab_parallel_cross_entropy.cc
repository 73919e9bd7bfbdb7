// Rules of vocabulary-parallel cross-entropy. A split along v makes max and sums partial, and the
// shard pass inserts the reductions; the loss sees complete ones.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/preference.h"
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

std::vector<OutputSpec> infer_max(const Op&, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->dtype == DType::kF32, "logits_max expects f32 logits");
  return {{".max", DType::kF32, rows_of(in[0]->shape)}};
}
std::vector<OutputSpec> infer_sums(const Op&, const Inputs& in) {
  CHECK(in.size() == 3 && in[2]->dtype == DType::kI32,
        "logits_sums expects logits, max and labels");
  return {{".sums", DType::kF32, rows_of(in[0]->shape, {2})}};
}
std::vector<OutputSpec> infer_loss(const Op& op, const Inputs& in) {
  const VocabParallelCrossEntropy& a = op.as<VocabParallelCrossEntropy>();
  CHECK(in.size() == input_count(a) && in[3]->dtype == DType::kI32,
        "vocab_parallel_cross_entropy expects logits, max, sums and labels");
  std::vector<OutputSpec> out = {{".report", DType::kF64, {kReportSize}}};
  if (a.gradient) out.push_back({".gradient", DType::kF32, in[0]->shape});
  return out;
}

// The outputs of the first two ops lack the label v. Split along it, each rank has the maximum and
// the sums of its part of the vocabulary, and they are partial: reduced to the maximum and the sum.
ShardingRule sharding_max(const Op&, ValueSpan) { return {{"btv"}, {"bt"}, "btv", {}, true}; }
ShardingRule sharding_sums(const Op&, ValueSpan) {
  return {{"btv", "bt", "bt"}, {"bts"}, "btv", {}};
}
ShardingRule sharding_loss(const Op& op, ValueSpan) {
  ShardingRule r{{"btv", "bt", "bts", "bt"}, {"r"}, "btv", {}, false, true};
  if (op.as<VocabParallelCrossEntropy>().scaled) r.inputs.push_back("e");
  if (op.outputs.size() > 1) r.outputs.push_back("btv");
  return r;
}

void gradient_of_sums(Gradients& g, const Op& op) {
  const ValueId d = g.of(op.outputs[0]);
  if (d == kNone) return;
  std::vector<ValueId> in = op.inputs;
  in.push_back(d);
  const LogitsSumsGrad a = {op.as<LogitsSums>().soft_cap};
  g.add(op.inputs[0], g.builder().emit_one(a, op.origin, std::move(in)));
}

void gradient_of_loss(Gradients& g, const Op& op) {
  const VocabParallelCrossEntropy a = {.terms = op.as<VocabParallelCrossEntropy>().terms,
                                       .gradient = true};
  const auto out = g.builder().emit(a, op.origin, op.inputs, {g.report()});
  g.add(op.inputs[0], out[1]);
}

}  // namespace

const OpRule LogitsMax::rule = {.infer = infer_max, .sharding = sharding_max};
const OpRule LogitsSums::rule = {
    .infer = infer_sums, .sharding = sharding_sums, .gradient = gradient_of_sums};
const OpRule VocabParallelCrossEntropy::rule = {.infer = infer_loss,
                                                .sharding = sharding_loss,
                                                .gradient = gradient_of_loss,
                                                .in_place = over_logits,
                                                .effects = {.loss = true, .adds_to_report = true}};

}  // namespace tessera
