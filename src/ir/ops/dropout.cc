// Rules of dropout and its gradient.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

void check_probability(double p) { CHECK(p > 0 && p < 1, "dropout with p = {}", p); }

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3 && in[1]->dtype == DType::kI64, "dropout takes x, samples and step");
  const Dropout& a = op.as<Dropout>();
  check_probability(a.p);
  std::vector<OutputSpec> out = {{"", in[0]->dtype, in[0]->shape}};
  if (a.mask) out.push_back({".mask", DType::kU8, in[0]->shape});
  return out;
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  CHECK(in.size() == 2 && in[1]->dtype == DType::kU8 && in[0]->shape == in[1]->shape,
        "dropout_grad takes dy and a mask");
  check_probability(op.as<DropoutGrad>().p);
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
  if (op.as<Dropout>().mask) return {{all, "b", "s"}, {all, all}, splits, {}};
  return {{all, "b", "s"}, {all}, splits, {{0}}};
}
ShardingRule sharding_grad(const Op& op, ValueSpan values) {
  const std::string all = labels(op, values);
  return {{all, all}, {all}, all, {{0}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const Dropout& a = op.as<Dropout>();
  Builder& b = g.builder();
  if (a.mask)
    g.add(op.inputs[0], b.emit_one(DropoutGrad{a.p}, op.origin, {dy, op.outputs[1]}));
  else
    g.add(op.inputs[0], b.emit_one(a, op.origin, {dy, op.inputs[1], op.inputs[2]}));
}

}  // namespace

const OpRule Dropout::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .in_place = over_first};
const OpRule DropoutGrad::rule = {
    .infer = infer_grad, .sharding = sharding_grad, .in_place = over_first};

}  // namespace tessera
