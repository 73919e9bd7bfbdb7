// rms_norm: normalisation by the root mean square over the last axis (Zhang & Sennrich 2019), after
// an optional sum.
//   x = Σ terms + Σ biases,  y = x / sqrt(mean(x²) + epsilon) · gain
// Inputs: terms, biases (attributes `terms`, `biases`), gain. Outputs: y, stats (0 and the factor
// of each row, f32), and x where it is more than one term.
// rms_norm_grad: inputs x, stats, gain, dy and (attribute `add`) a gradient of x that it adds to.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

bool sums(const Attributes& a) { return a.integer("terms", 1) + a.integer("biases") > 1; }

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  const int64_t terms = a.integer("terms", 1), biases = a.integer("biases");
  CHECK(static_cast<int64_t>(in.size()) == terms + biases + 1, "rms_norm of {} inputs", in.size());
  const Shape& x = in[0]->shape;
  for (size_t i = 1; i < in.size(); ++i)
    CHECK(in[i]->shape == (static_cast<int64_t>(i) < terms ? x : Shape{x[-1]}),
          "rms_norm of {} has an input {}", to_string(x), to_string(in[i]->shape));
  std::vector<int64_t> stats = x.dims();
  stats.back() = 2;
  std::vector<OutputSpec> out = {{"", in[0]->dtype, x}, {".stats", DType::kF32, Shape(stats)}};
  if (sums(a)) out.push_back({".sum", in[0]->dtype, x});
  return out;
}

std::vector<OutputSpec> infer_grad(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == (a.integer("add") ? 5u : 4u), "rms_norm_grad of {} inputs", in.size());
  CHECK(in[0]->shape == in[3]->shape, "rms_norm_grad: x and dy differ");
  return {{".gradient", in[0]->dtype, in[0]->shape},
          {".gain.gradient", sum_type(a), Shape{in[0]->shape[-1]}}};
}

ShardingRule sharding(const Op& op, std::span<const Value>) {
  ShardingRule r;
  const int64_t terms = op.attributes.integer("terms", 1);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    r.inputs.push_back(static_cast<int64_t>(i) < terms ? "btf" : "f");
  r.outputs = {"btf", "bts"};
  if (sums(op.attributes)) r.outputs.push_back("btf");
  r.splits = "bt";
  return r;
}
ShardingRule sharding_grad(const Op& op, std::span<const Value>) {
  if (!op.attributes.integer("add")) return {{"btf", "bts", "f", "btf"}, {"btf", "f"}, "bt", {{3}}};
  return {{"btf", "bts", "f", "btf", "btf"}, {"btf", "f"}, "bt", {{3, 4}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const int64_t terms = op.attributes.integer("terms", 1), biases = op.attributes.integer("biases");
  CHECK(terms == 1 && biases == 0, "norms are fused with sums after differentiation");
  const ValueId x = op.inputs[0], gain = op.inputs[1];
  const ValueId sofar = g.take(x);
  Attributes a;
  std::vector<ValueId> in = {x, op.outputs[1], gain, dy};
  if (sofar != kNone) {
    a.set("add", int64_t{1});
    in.push_back(sofar);
  }
  const auto out =
      g.builder().emit(OpKind::kRmsNormGrad, op.origin, a, in, {kNone, g.weight(gain)});
  g.add(x, out[0]);
}

}  // namespace

const OpRule kRmsNormRule = {OpKind::kRmsNorm, "rms_norm", infer, sharding, gradient, nullptr};
const OpRule kRmsNormGradRule = {OpKind::kRmsNormGrad, "rms_norm_grad", infer_grad,
                                 sharding_grad,        nullptr,         nullptr};

}  // namespace tessera
