// cross_entropy: report += (Σ −log softmax(logits)[label], number of labels ≥ 0); with attribute
// `gradient`, dlogits = softmax − onehot as well (in place where the logits die).
// linear_cross_entropy: the same of logits = x wᵀ, by chunks of tokens, so that logits are never
// held for all of them; with `gradient`, dx and dw += as well; with `frozen`, dx alone.
// With `scaled` the last input is the step, by whose loss scale gradients are multiplied.
// A loss and its gradient are one op: the gradient rule emits it again with `gradient`, and
// differentiate drops the first.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"
#include "ir/state.h"

namespace tessera {
namespace {

const OutputSpec kReport = {".report", DType::kF64, {kReportSize}};

size_t scaled(const Attributes& a) { return a.integer("scaled") != 0 ? 1 : 0; }

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 2 + scaled(a) && in[1]->dtype == DType::kI32,
        "cross_entropy takes logits and labels");
  std::vector<OutputSpec> out = {kReport};
  if (a.integer("gradient")) out.push_back({".gradient", in[0]->dtype, in[0]->shape});
  return out;
}

std::vector<OutputSpec> infer_linear(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 3 + scaled(a) && in[0]->shape[-1] == in[1]->shape[-1] &&
            in[2]->dtype == DType::kI32,
        "linear_cross_entropy takes x, w and labels");
  std::vector<OutputSpec> out = {kReport};
  if (a.integer("gradient")) {
    out.push_back({".gradient", in[0]->dtype, in[0]->shape});
    if (!a.integer("frozen")) out.push_back({".weight.gradient", sum_type(a), in[1]->shape});
  }
  return out;
}

ShardingRule sharding(const Op& op, ValueSpan) {
  ShardingRule r{{"btv", "bt"}, {"r"}, "bt", {}, false, true};
  if (scaled(op.attributes)) r.inputs.push_back("s");
  if (op.outputs.size() > 1) r.outputs.push_back("btv");
  return r;
}
ShardingRule sharding_linear(const Op& op, ValueSpan) {
  ShardingRule r{{"btf", "vf", "bt"}, {"r"}, "bt", {}, false, true};
  if (scaled(op.attributes)) r.inputs.push_back("s");
  if (op.outputs.size() > 1) r.outputs.insert(r.outputs.end(), {"btf", "vf"});
  r.outputs.resize(op.outputs.size());
  return r;
}

void gradient(Gradients& g, const Op& op) {
  const auto out = g.builder().emit(OpKind::kCrossEntropy, op.origin, {{"gradient", int64_t{1}}},
                                    op.inputs, {g.report()});
  g.add(op.inputs[0], out[1]);
}

void gradient_linear(Gradients& g, const Op& op) {
  Attributes a = {{"gradient", int64_t{1}}};
  std::vector<ValueId> outputs = {g.report(), kNone};
  if (g[op.inputs[1]].frozen)
    a.set("frozen", int64_t{1});
  else
    outputs.push_back(g.weight(op.inputs[1]));
  const auto out = g.builder().emit(OpKind::kLinearCrossEntropy, op.origin, a, op.inputs, outputs);
  g.add(op.inputs[0], out[1]);
}

Cost cost_linear(const Op& op, ValueSpan values) {
  const Value &x = values[op.inputs[0]], &w = values[op.inputs[1]];
  const int64_t F = w.shape[-1], V = w.shape[0], tokens = x.shape.elements() / F;
  std::vector<ProductShape> products = {{1, tokens, V, F, x.dtype, ProductKind::kForward}};
  if (op.attributes.integer("gradient")) {
    products.push_back({1, tokens, F, V, x.dtype, ProductKind::kInputGradient});
    if (!op.attributes.integer("frozen"))
      products.push_back({1, V, F, tokens, x.dtype, ProductKind::kWeightGradient});
  }
  return product_cost(op, values, Work::kChunks, std::move(products));
}

}  // namespace

const OpRule kCrossEntropyRule = {.kind = OpKind::kCrossEntropy,
                                  .name = "cross_entropy",
                                  .infer = infer,
                                  .sharding = sharding,
                                  .gradient = gradient,
                                  .in_place = over_logits,
                                  .effects = {.loss = true, .adds_to_report = true}};
const OpRule kLinearCrossEntropyRule = {.kind = OpKind::kLinearCrossEntropy,
                                        .name = "linear_cross_entropy",
                                        .infer = infer_linear,
                                        .sharding = sharding_linear,
                                        .gradient = gradient_linear,
                                        .cost = cost_linear,
                                        .prepared = Prepared::kHead,
                                        .time = TimeGroup::kMatrix,
                                        .effects = {.loss = true, .adds_to_report = true}};

}  // namespace tessera
