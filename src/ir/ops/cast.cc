// Rules of cast and copy.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  CHECK(in.size() == 1, "cast of {} values", in.size());
  return {{".cast", op.as<Cast>().to, in[0]->shape}};
}

std::vector<OutputSpec> infer_copy(const Op&, const Inputs& in) {
  CHECK(in.size() == 1, "copy of {} values", in.size());
  return {{".copy", in[0]->dtype, in[0]->shape}};
}

// Rounding is not linear, so partial sums must be reduced before it.
ShardingRule sharding(const Op& op, ValueSpan values) {
  const int rank = values[op.inputs[0]].shape.rank();
  const std::string all = std::string("abcdefgh").substr(0, rank);
  return {{all}, {all}, all, {}};
}

// The output has the placement of the input.
ShardingRule sharding_of_copy(const Op& op, ValueSpan values) {
  ShardingRule r = sharding(op, values);
  r.linear = {{0}};
  return r;
}

// The link to the host transfers x only once.
Cost cost_of_copy(const Op& op, ValueSpan values) {
  Cost c = sweep_cost(op, values);
  c.work = Work::kHostCopy;
  c.moved_bytes = bytes_of(values, op.inputs[0]);
  return c;
}

}  // namespace

const OpRule Cast::rule = {.infer = infer, .sharding = sharding};
const OpRule Copy::rule = {.infer = infer_copy, .sharding = sharding_of_copy, .cost = cost_of_copy};

}  // namespace tessera
