// dropout: y = x · mask / (1 − p), the mask keyed by (seed, step, `key`, layer, global sample,
// element). Inputs x [B, …], samples [B], step. Its gradient is itself, which draws the mask again.
// With attribute `mask` the mask is its second output, a byte an element, and the gradient is
// dropout_grad: dx = dy · mask / (1 − p).
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

bool keeps_mask(const Op& op) { return op.attributes.integer("mask") != 0; }

void check_share(const Attributes& a) {
  const double p = a.number("p");
  CHECK(p > 0 && p < 1, "dropout with p = {}", p);
}

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 3 && in[1]->dtype == DType::kI64, "dropout takes x, samples and step");
  check_share(a);
  std::vector<OutputSpec> out = {{"", in[0]->dtype, in[0]->shape}};
  if (a.integer("mask")) out.push_back({".mask", DType::kU8, in[0]->shape});
  return out;
}

std::vector<OutputSpec> infer_grad(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 2 && in[1]->dtype == DType::kU8 && in[0]->shape == in[1]->shape,
        "dropout_grad takes dy and a mask");
  check_share(a);
  return {{".gradient", in[0]->dtype, in[0]->shape}};
}

std::string labels(const Op& op, ValueSpan values) {
  const auto rank = static_cast<size_t>(values[op.inputs[0]].shape.rank());
  return std::string("bcdefgh").substr(0, rank);
}

ShardingRule sharding(const Op& op, ValueSpan values) {
  const std::string all = labels(op, values);
  // The mask is drawn by rows: of more than three dimensions the first, second and last divide.
  const std::string splits = all.size() <= 3 ? all : all.substr(0, 2) + all.back();
  if (keeps_mask(op)) return {{all, "b", "s"}, {all, all}, splits, {}};
  return {{all, "b", "s"}, {all}, splits, {{0}}};
}
ShardingRule sharding_grad(const Op& op, ValueSpan values) {
  const std::string all = labels(op, values);
  return {{all, all}, {all}, all, {{0}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  Builder& b = g.builder();
  if (keeps_mask(op))
    g.add(op.inputs[0], b.emit_one(OpKind::kDropoutGrad, op.origin,
                                   {{"p", op.attributes.number("p")}}, {dy, op.outputs[1]}));
  else
    g.add(op.inputs[0],
          b.emit_one(OpKind::kDropout, op.origin, op.attributes, {dy, op.inputs[1], op.inputs[2]}));
}

}  // namespace

const OpRule kDropoutRule = {.kind = OpKind::kDropout,
                             .name = "dropout",
                             .infer = infer,
                             .sharding = sharding,
                             .gradient = gradient,
                             .in_place = over_first};
const OpRule kDropoutGradRule = {.kind = OpKind::kDropoutGrad,
                                 .name = "dropout_grad",
                                 .infer = infer_grad,
                                 .sharding = sharding_grad,
                                 .in_place = over_first};

}  // namespace tessera
