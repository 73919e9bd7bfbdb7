// rotary: turns queries and keys of packed qkv [B, T, K, G+2, D] by their positions (Su et al.
// 2021), in the first `dims` of each head, halves paired (GPT-NeoX). `inverse` turns back, which
// is its gradient. Attributes `factor`, `low`, `high`, `context`, if they are there, lower slow
// frequencies as LLaMA 3.1 does (kernels/rotary.h).
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 2 && in[0]->shape.rank() == 5 && in[1]->dtype == DType::kI32,
        "rotary takes packed qkv and positions");
  CHECK(a.integer("dims") % 2 == 0 && a.integer("dims") <= in[0]->shape[4], "rotary of {} dims",
        a.integer("dims"));
  return {{"", in[0]->dtype, in[0]->shape}};
}

ShardingRule sharding(const Op&, ValueSpan) { return {{"btkgd", "bt"}, {"btkgd"}, "btk", {{0}}}; }

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  Attributes a = op.attributes;
  a.set("inverse", int64_t{1} - op.attributes.integer("inverse"));
  g.add(op.inputs[0], g.builder().emit_one(OpKind::kRotary, op.origin, a, {dy, op.inputs[1]}));
}

}  // namespace

const OpRule kRotaryRule = {.kind = OpKind::kRotary,
                            .name = "rotary",
                            .infer = infer,
                            .sharding = sharding,
                            .gradient = gradient,
                            .in_place = over_first};

}  // namespace tessera
