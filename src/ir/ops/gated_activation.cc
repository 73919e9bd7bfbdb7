// Rules of gated activations.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op&, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->shape[-1] == 2, "gated_activation expects one input [..., 2]");
  const std::vector<int64_t>& dims = in[0]->shape.dims();
  return {{"", in[0]->dtype, Shape(std::vector<int64_t>(dims.begin(), dims.end() - 1))}};
}

std::vector<OutputSpec> infer_grad(const Op&, const Inputs& in) {
  CHECK(in.size() == 2 && in[0]->shape.elements() == 2 * in[1]->shape.elements(),
        "gated_activation_grad expects the inputs x [..., 2] and dy [...]");
  return {{".gradient", in[0]->dtype, in[0]->shape}};
}

ShardingRule sharding(const Op&, ValueSpan) { return {{"btfg"}, {"btf"}, "btf", {}}; }
// Linear in dy: a partial dy gives a partial dx.
ShardingRule sharding_grad(const Op&, ValueSpan) {
  return {{"btfg", "btf"}, {"btfg"}, "btf", {{1}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const GatedActivationGrad a = {op.as<GatedActivation>().form};
  g.add(op.inputs[0], g.builder().emit_one(a, op.origin, {op.inputs[0], dy}));
}

}  // namespace

const OpRule GatedActivation::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .repeat = Repeat::kCheap};
const OpRule GatedActivationGrad::rule = {.infer = infer_grad, .sharding = sharding_grad};

}  // namespace tessera
