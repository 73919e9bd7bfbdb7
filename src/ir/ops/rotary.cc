// The rule of the rotary embedding. A rotation is orthogonal, so its gradient is the rotation by
// the opposite angle; a magnitude multiplies both.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  CHECK(in.size() == 2 && in[0]->shape.rank() == 5 && in[1]->dtype == DType::kI32,
        "rotary expects packed qkv and positions");
  const Rotary& a = op.as<Rotary>();
  CHECK(a.dims % 2 == 0 && a.dims <= in[0]->shape[4], "rotary of {} dims", a.dims);
  const bool divides = a.scaling == RopeScaling::kLongrope;
  CHECK(std::ssize(a.dividers) == (divides ? a.dims / 2 : 0), "rotary of {} dims, {} dividers",
        a.dims, a.dividers.size());
  return {{"", in[0]->dtype, in[0]->shape}};
}

ShardingRule sharding(const Op&, ValueSpan) { return {{"btkgd", "bt"}, {"btkgd"}, "btk", {{0}}}; }

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  Rotary a = op.as<Rotary>();
  a.inverse = !a.inverse;
  g.add(op.inputs[0], g.builder().emit_one(a, op.origin, {dy, op.inputs[1]}));
}

}  // namespace

const OpRule Rotary::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .in_place = over_first};

}  // namespace tessera
