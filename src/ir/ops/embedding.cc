// Rules of table lookup and its gradient. If v is split, ranks without the id contribute rows of
// zeros, so the output is a partial sum.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op&, const Inputs& in) {
  CHECK(in.size() == 2 && in[0]->dtype == DType::kI32 && in[1]->shape.rank() == 2,
        "embedding expects ids and table");
  std::vector<int64_t> dims = in[0]->shape.dims();
  dims.push_back(in[1]->shape[1]);
  return {{"", in[1]->dtype, Shape(dims)}};
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  CHECK(in.size() == 2 && in[0]->dtype == DType::kI32, "embedding_grad expects ids and dy");
  const EmbeddingGrad& a = op.as<EmbeddingGrad>();
  return {{".gradient", a.accum_dtype, {a.rows, in[1]->shape[-1]}}};
}

ShardingRule sharding(const Op&, ValueSpan) { return {{"bt", "vf"}, {"btf"}, "btvf", {{1}}}; }
ShardingRule sharding_grad(const Op&, ValueSpan) { return {{"bt", "btf"}, {"vf"}, "btvf", {{1}}}; }

// Ids have no gradient; that of the table is a scatter-add of dy.
void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]), table = op.inputs[1];
  if (dy == kNone) return;
  const int64_t rows = g[table].shape[0];
  g.builder().emit(EmbeddingGrad{.rows = rows}, op.origin, {op.inputs[0], dy}, {g.weight(table)});
}

// Only the looked-up rows of the table are moved.
Cost cost(const Op& op, ValueSpan values) {
  Cost c = sweep_cost(op, values);
  c.moved_bytes = 2.0 * bytes_of(values, op.outputs[0]);
  return c;
}
// dy is read, and the gradient rows of its ids are read and written.
Cost cost_grad(const Op& op, ValueSpan values) {
  Cost c = sweep_cost(op, values);
  c.moved_bytes = 3.0 * bytes_of(values, op.inputs[1]);
  return c;
}

}  // namespace

const OpRule Embedding::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .cost = cost};
const OpRule EmbeddingGrad::rule = {
    .infer = infer_grad, .sharding = sharding_grad, .cost = cost_grad};

}  // namespace tessera
