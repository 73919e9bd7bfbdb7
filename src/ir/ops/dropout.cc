// dropout: y = x · mask / (1 − p), the mask keyed by (seed, step, `key`, layer, global sample,
// element). Inputs x [B, …], samples [B], step. Its gradient is itself.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 3 && in[1]->dtype == DType::kI64, "dropout takes x, samples and step");
  const double p = a.number("p");
  CHECK(p > 0 && p < 1, "dropout with p = {}", p);
  return {{"", in[0]->dtype, in[0]->shape}};
}

ShardingRule sharding(const Op& op, std::span<const Value> values) {
  const auto rank = static_cast<size_t>(at(values, op.inputs[0]).shape.rank());
  const std::string all = std::string("bcdefgh").substr(0, rank);
  // The mask is drawn by rows: of more than three dimensions the first, second and last divide.
  const std::string splits = rank <= 3 ? all : all.substr(0, 2) + all.back();
  return {{all, "b", "s"}, {all}, splits, {{0}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  g.add(op.inputs[0], g.builder().emit_one(OpKind::kDropout, op.origin, op.attributes,
                                           {dy, op.inputs[1], op.inputs[2]}));
}

}  // namespace

const OpRule kDropoutRule = {OpKind::kDropout, "dropout", infer, sharding, gradient, nullptr};

}  // namespace tessera
