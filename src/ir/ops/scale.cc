// Rules of scale, whose gradient is the same op, of soft_cap and of accumulate.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op&, const Inputs& in) {
  CHECK(in.size() == 1, "scale expects x");
  return {{".scaled", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_cap(const Op&, const Inputs& in) {
  CHECK(in.size() == 1, "soft_cap expects x");
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_accumulate(const Op& op, const Inputs& in) {
  CHECK(in.size() == 1, "accumulate expects x");
  return {{".sum", op.as<Accumulate>().accum_dtype, in[0]->shape}};
}

// Linear and element-wise: a split along any dimension passes through, and so does a partial sum.
ShardingRule sharding(const Op& op, ValueSpan values) {
  const int rank = values[op.inputs[0]].shape.rank();
  const std::string all = std::string("abcdefgh").substr(0, rank);
  return {{all}, {all}, all, {{0}}};
}
ShardingRule sharding_cap(const Op& op, ValueSpan values) {
  ShardingRule r = sharding(op, values);
  r.linear = {};
  return r;
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  g.add(op.inputs[0], g.builder().emit_one(op.attributes, op.origin, {dy}));
}

}  // namespace

const OpRule Scale::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .in_place = over_first};
const OpRule SoftCap::rule = {.infer = infer_cap, .sharding = sharding_cap, .in_place = over_first};
const OpRule Accumulate::rule = {.infer = infer_accumulate, .sharding = sharding};

}  // namespace tessera
