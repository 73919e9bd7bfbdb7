// gelu: y = u' Φ(u') with u' = u + bias (Hendrycks & Gimpel 2016); attribute `form` erf (exact) or
// tanh (its approximation); `bias` says whether the second input is there.
// gelu_grad: inputs u, [bias], dy; outputs du and, with a bias, dbias += Σ_rows du.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == (a.integer("bias") ? 2u : 1u), "gelu of {} inputs", in.size());
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_grad(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == (a.integer("bias") ? 3u : 2u), "gelu_grad of {} inputs", in.size());
  std::vector<OutputSpec> out = {{".gradient", in[0]->dtype, in[0]->shape}};
  if (a.integer("bias")) out.push_back({".bias.gradient", sum_type(a), in[1]->shape});
  return out;
}

ShardingRule sharding(const Op& op, ValueSpan) {
  ShardingRule r{{"btf"}, {"btf"}, "btf", {}};
  if (op.attributes.integer("bias")) r.inputs.push_back("f");
  return r;
}
ShardingRule sharding_grad(const Op& op, ValueSpan) {
  if (op.attributes.integer("bias")) return {{"btf", "f", "btf"}, {"btf", "f"}, "btf", {{2}}};
  return {{"btf", "btf"}, {"btf"}, "btf", {{1}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  std::vector<ValueId> in = op.inputs, out = {kNone};
  in.push_back(dy);
  if (op.attributes.integer("bias")) out.push_back(g.weight(op.inputs[1]));
  const auto made = g.builder().emit(OpKind::kGeluGrad, op.origin, op.attributes, in, out);
  g.add(op.inputs[0], made[0]);
}

}  // namespace

const OpRule kGeluRule = {.kind = OpKind::kGelu,
                          .name = "gelu",
                          .infer = infer,
                          .sharding = sharding,
                          .gradient = gradient,
                          .in_place = over_first};
const OpRule kGeluGradRule = {.kind = OpKind::kGeluGrad,
                              .name = "gelu_grad",
                              .infer = infer_grad,
                              .sharding = sharding_grad,
                              .in_place = over_last};

}  // namespace tessera
