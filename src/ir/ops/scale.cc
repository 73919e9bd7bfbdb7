// scale: y = factor · x. Its gradient is itself.
// accumulate: sum += x, over the calls of a step: what layers give for a value that they all read,
// or a product for the gradient of its weight.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 1 && a.has("factor"), "scale takes x and a factor");
  return {{".scaled", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_accumulate(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 1, "accumulate takes x");
  return {{".sum", sum_type(a), in[0]->shape}};
}

ShardingRule sharding(const Op& op, ValueSpan values) {
  const auto rank = static_cast<size_t>(values[op.inputs[0]].shape.rank());
  const std::string all = std::string("abcdefgh").substr(0, rank);
  return {{all}, {all}, all, {{0}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  g.add(op.inputs[0], g.builder().emit_one(OpKind::kScale, op.origin, op.attributes, {dy}));
}

}  // namespace

const OpRule kScaleRule = {.kind = OpKind::kScale,
                           .name = "scale",
                           .infer = infer,
                           .sharding = sharding,
                           .gradient = gradient,
                           .in_place = over_first};
const OpRule kAccumulateRule = {.kind = OpKind::kAccumulate,
                                .name = "accumulate",
                                .infer = infer_accumulate,
                                .sharding = sharding};

}  // namespace tessera
