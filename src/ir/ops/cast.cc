// cast: y = x in the type that attribute `to` names, rounded to nearest even.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  const auto to = dtype_from_name(a.text("to"));
  CHECK(in.size() == 1 && to.has_value(), "cast to {}", a.text("to"));
  return {{".cast", *to, in[0]->shape}};
}

// Rounding is not linear: partial sums are reduced before it.
ShardingRule sharding(const Op& op, std::span<const Value> values) {
  const auto rank = static_cast<size_t>(at(values, op.inputs[0]).shape.rank());
  const std::string all = std::string("abcdefgh").substr(0, rank);
  return {{all}, {all}, all, {}};
}

}  // namespace

const OpRule kCastRule = {OpKind::kCast, "cast", infer, sharding, nullptr, nullptr};

}  // namespace tessera
