// gated_activation: y[…, m] = act(x[…, m, 0]) · x[…, m, 1] (Shazeer 2020), a gate and a value for
// each inner unit; attribute `form` of act: silu, or the forms of gelu, erf and tanh.
// gated_activation_grad: inputs x, dy; output dx.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes&, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->shape[-1] == 2, "gated_activation takes pairs");
  const std::vector<int64_t>& dims = in[0]->shape.dims();
  return {{"", in[0]->dtype, Shape(std::vector<int64_t>(dims.begin(), dims.end() - 1))}};
}

std::vector<OutputSpec> infer_grad(const Attributes&, const Inputs& in) {
  CHECK(in.size() == 2 && in[0]->shape.elements() == 2 * in[1]->shape.elements(),
        "gated_activation_grad takes x and dy");
  return {{".gradient", in[0]->dtype, in[0]->shape}};
}

ShardingRule sharding(const Op&, ValueSpan) { return {{"btfg"}, {"btf"}, "btf", {}}; }
ShardingRule sharding_grad(const Op&, ValueSpan) {
  return {{"btfg", "btf"}, {"btfg"}, "btf", {{1}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  g.add(op.inputs[0], g.builder().emit_one(OpKind::kGatedActivationGrad, op.origin, op.attributes,
                                           {op.inputs[0], dy}));
}

}  // namespace

const OpRule kGatedActivationRule = {.kind = OpKind::kGatedActivation,
                                     .name = "gated_activation",
                                     .infer = infer,
                                     .sharding = sharding,
                                     .gradient = gradient,
                                     .repeat = Repeat::kCheap};
const OpRule kGatedActivationGradRule = {.kind = OpKind::kGatedActivationGrad,
                                         .name = "gated_activation_grad",
                                         .infer = infer_grad,
                                         .sharding = sharding_grad};

}  // namespace tessera
