// norm: layer normalisation over the last axis (Ba et al. 2016), after an optional sum.
//   x = Σ terms + Σ biases,  y = (x − mean) / sqrt(variance + epsilon) · gain + bias
// Inputs: terms, biases (attributes `terms`, `biases`), gain, bias. Outputs: y, stats (mean, 1/std
// of each row, f32), and x where it is more than one term.
// norm_grad: inputs x, stats, gain, dy and (attribute `add`) a gradient of x that it adds to.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

bool sums(const Attributes& a) { return a.integer("terms", 1) + a.integer("biases") > 1; }

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  return infer_norm(a, in, 2);
}

std::vector<OutputSpec> infer_grad(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == (a.integer("add") ? 5u : 4u), "norm_grad of {} inputs", in.size());
  CHECK(in[0]->shape == in[3]->shape, "norm_grad: x and dy differ");
  const Shape vector{in[0]->shape[-1]};
  return {{".gradient", in[0]->dtype, in[0]->shape},
          {".gain.gradient", sum_type(a), vector},
          {".bias.gradient", sum_type(a), vector}};
}

ShardingRule sharding_grad(const Op& op, ValueSpan) {
  ShardingRule r{{"btf", "bts", "f", "btf"}, {"btf", "f", "f"}, "bt", {{3}}};
  if (!op.attributes.integer("add")) return r;
  r.inputs.push_back("btf");
  r.linear = {{3, 4}};
  return r;
}

void gradient(Gradients& g, const Op& op) { gradient_of_norm(g, op, OpKind::kNormGrad); }

}  // namespace

std::vector<OutputSpec> infer_norm(const Attributes& a, const Inputs& in, int64_t vectors) {
  const int64_t terms = a.integer("terms", 1), biases = a.integer("biases");
  CHECK(static_cast<int64_t>(in.size()) == terms + biases + vectors, "a norm of {} inputs",
        in.size());
  const Shape& x = in[0]->shape;
  for (size_t i = 1; i < in.size(); ++i)
    CHECK(in[i]->shape == (static_cast<int64_t>(i) < terms ? x : Shape{x[-1]}),
          "a norm of {} has an input {}", to_string(x), to_string(in[i]->shape));
  std::vector<int64_t> stats = x.dims();
  stats.back() = 2;
  std::vector<OutputSpec> out = {{"", in[0]->dtype, x}, {".stats", DType::kF32, Shape(stats)}};
  if (sums(a)) out.push_back({".sum", in[0]->dtype, x});
  return out;
}

ShardingRule sharding_of_norm(const Op& op, ValueSpan) {
  ShardingRule r;
  const int64_t terms = op.attributes.integer("terms", 1);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    r.inputs.push_back(static_cast<int64_t>(i) < terms ? "btf" : "f");
  r.outputs = {"btf", "bts"};
  if (sums(op.attributes)) r.outputs.push_back("btf");
  r.splits = "bt";
  return r;
}

void gradient_of_norm(Gradients& g, const Op& op, OpKind kind) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const int64_t terms = op.attributes.integer("terms", 1), biases = op.attributes.integer("biases");
  CHECK(terms == 1 && biases == 0, "norms are fused with sums after differentiation");
  const ValueId x = op.inputs[0], sofar = g.take(x);
  Attributes a;
  std::vector<ValueId> in = {x, op.outputs[1], op.inputs[1], dy};
  if (sofar != kNone) {
    a.set("add", int64_t{1});
    in.push_back(sofar);
  }
  std::vector<ValueId> out = {kNone};
  for (size_t i = 1; i < op.inputs.size(); ++i) out.push_back(g.weight(op.inputs[i]));
  g.add(x, g.builder().emit(kind, op.origin, a, in, out)[0]);
}

InPlace over_gradient(const Op& op) {
  return op.attributes.integer("add") ? over_last(op) : InPlace{3, 0};
}

const OpRule kNormRule = {.kind = OpKind::kNorm,
                          .name = "norm",
                          .infer = infer,
                          .sharding = sharding_of_norm,
                          .gradient = gradient,
                          .repeat = Repeat::kCheap};
const OpRule kNormGradRule = {.kind = OpKind::kNormGrad,
                              .name = "norm_grad",
                              .infer = infer_grad,
                              .sharding = sharding_grad,
                              .in_place = over_gradient};

}  // namespace tessera
