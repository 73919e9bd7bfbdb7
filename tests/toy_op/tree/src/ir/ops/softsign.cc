// Rules of softsign and its gradient.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op&, const Inputs& in) {
  CHECK(in.size() == 1, "softsign of {} inputs", in.size());
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_grad(const Op&, const Inputs& in) {
  CHECK(in.size() == 2, "softsign_grad of {} inputs", in.size());
  return {{".gradient", in[0]->dtype, in[0]->shape}};
}

ShardingRule sharding(const Op&, ValueSpan) { return {{"btf"}, {"btf"}, "btf", {}}; }
ShardingRule sharding_grad(const Op&, ValueSpan) { return {{"btf", "btf"}, {"btf"}, "btf", {{1}}}; }

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  g.add(op.inputs[0], g.builder().emit_one(SoftsignGrad{}, op.origin, {op.inputs[0], dy}));
}

}  // namespace

const OpRule Softsign::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .in_place = over_first};
const OpRule SoftsignGrad::rule = {
    .infer = infer_grad, .sharding = sharding_grad, .in_place = over_last};

}  // namespace tessera
