// Rules of gelu and its gradient.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  CHECK(in.size() == input_count(op.as<Gelu>()), "gelu of {} inputs", in.size());
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  const GeluGrad& a = op.as<GeluGrad>();
  CHECK(in.size() == input_count(a), "gelu_grad of {} inputs", in.size());
  std::vector<OutputSpec> out = {{".gradient", in[0]->dtype, in[0]->shape}};
  if (a.of.bias) out.push_back({".bias.gradient", a.accum_dtype, in[1]->shape});
  return out;
}

// Every element is computed separately, so any dimension can be split. The bias has the last one;
// its gradient sums over all rows, so it is partial if rows are split.
ShardingRule sharding(const Op& op, ValueSpan) {
  ShardingRule r{{"btf"}, {"btf"}, "btf", {}};
  if (op.as<Gelu>().bias) r.inputs.push_back("f");
  return r;
}
ShardingRule sharding_grad(const Op& op, ValueSpan) {
  if (op.as<GeluGrad>().of.bias) return {{"btf", "f", "btf"}, {"btf", "f"}, "btf", {{2}}};
  return {{"btf", "btf"}, {"btf"}, "btf", {{1}}};
}

// The derivative is a function of x, not of y: the gradient reads the inputs of the op again, and y
// need not be saved.
void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  std::vector<ValueId> in = op.inputs, out = {kNone};
  in.push_back(dy);
  const Gelu& a = op.as<Gelu>();
  if (a.bias) out.push_back(g.weight(op.inputs[1]));
  const auto made = g.builder().emit(GeluGrad{a}, op.origin, in, out);
  g.add(op.inputs[0], made[0]);
}

}  // namespace

const OpRule Gelu::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .in_place = over_first};
const OpRule GeluGrad::rule = {
    .infer = infer_grad, .sharding = sharding_grad, .in_place = over_last};

}  // namespace tessera
