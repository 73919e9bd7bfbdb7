// Rules of the losses on complete rows of logits. A row cannot be split along the vocabulary here;
// that is what the divided form is for. The gradient rule emits the same op with `gradient` set,
// which computes loss and gradient together.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"
#include "ir/state.h"

namespace tessera {
namespace {

const OutputSpec kReport = {".report", DType::kF64, {kReportSize}};

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const CrossEntropy& a = op.as<CrossEntropy>();
  CHECK(in.size() == input_count(a) && in[1]->dtype == DType::kI32,
        "cross_entropy expects logits and labels");
  std::vector<OutputSpec> out = {kReport};
  if (a.gradient) out.push_back({".gradient", in[0]->dtype, in[0]->shape});
  return out;
}

std::vector<OutputSpec> infer_linear(const Op& op, const Inputs& in) {
  const LinearCrossEntropy& a = op.as<LinearCrossEntropy>();
  CHECK(in.size() == input_count(a) && in[0]->shape[-1] == in[1]->shape[-1] &&
            in[2]->dtype == DType::kI32,
        "linear_cross_entropy expects x, w and labels");
  std::vector<OutputSpec> out = {kReport};
  if (a.gradient) {
    out.push_back({".gradient", in[0]->dtype, in[0]->shape});
    if (!a.frozen) out.push_back({".weight.gradient", a.accum_dtype, in[1]->shape});
  }
  return out;
}

ShardingRule sharding(const Op& op, ValueSpan) {
  ShardingRule r{{"btv", "bt"}, {"r"}, "bt", {}, false, true};
  if (op.as<CrossEntropy>().scaled) r.inputs.push_back("s");
  if (op.outputs.size() > 1) r.outputs.push_back("btv");
  return r;
}
// b batch, t tokens, f hidden, v vocabulary, r report, s step. Rows (b, t) can be split: the report
// and dW are then partial sums.
ShardingRule sharding_linear(const Op& op, ValueSpan) {
  ShardingRule r{{"btf", "vf", "bt"}, {"r"}, "bt", {}, false, true};
  if (op.as<LinearCrossEntropy>().scaled) r.inputs.push_back("s");
  if (op.outputs.size() > 1) r.outputs.insert(r.outputs.end(), {"btf", "vf"});
  r.outputs.resize(op.outputs.size());
  return r;
}

void gradient_of_loss(Gradients& g, const Op& op) {
  const CrossEntropy a = {.soft_cap = op.as<CrossEntropy>().soft_cap, .gradient = true};
  const auto out = g.builder().emit(a, op.origin, op.inputs, {g.report()});
  g.add(op.inputs[0], out[1]);
}

void gradient_of_linear(Gradients& g, const Op& op) {
  const LinearCrossEntropy a = {.soft_cap = op.as<LinearCrossEntropy>().soft_cap,
                                .gradient = true,
                                .frozen = g[op.inputs[1]].frozen};
  std::vector<ValueId> outputs = {g.report(), kNone};
  if (!a.frozen) outputs.push_back(g.weight(op.inputs[1]));
  const auto out = g.builder().emit(a, op.origin, op.inputs, outputs);
  g.add(op.inputs[0], out[1]);
}

Cost cost_linear(const Op& op, ValueSpan values) {
  const Value &x = values[op.inputs[0]], &w = values[op.inputs[1]];
  const int64_t F = w.shape[-1], V = w.shape[0], tokens = x.shape.elements() / F;
  std::vector<GemmShape> products = {{1, tokens, V, F, x.dtype, GemmKind::kForward}};
  const LinearCrossEntropy& a = op.as<LinearCrossEntropy>();
  if (a.gradient) {
    products.push_back({1, tokens, F, V, x.dtype, GemmKind::kInputGradient});
    if (!a.frozen) products.push_back({1, V, F, tokens, x.dtype, GemmKind::kWeightGradient});
  }
  return product_cost(op, values, Work::kChunks, std::move(products));
}

}  // namespace

const OpRule CrossEntropy::rule = {.infer = infer,
                                   .sharding = sharding,
                                   .gradient = gradient_of_loss,
                                   .in_place = over_logits,
                                   .effects = {.loss = true, .adds_to_report = true}};
const OpRule LinearCrossEntropy::rule = {.infer = infer_linear,
                                         .sharding = sharding_linear,
                                         .gradient = gradient_of_linear,
                                         .cost = cost_linear,
                                         .prepared = Prepared::kHead,
                                         .time = TimeGroup::kMatrix,
                                         .effects = {.loss = true, .adds_to_report = true}};

}  // namespace tessera
