// matmul:              y[…, m] = Σ_k x[…, k] w[m, k]      `contract` trailing dimensions are k
// matmul_grad_input:  dx[…, k] = Σ_m dy[…, m] w[m, k]
// matmul_grad_weight: dw[m, k] += Σ_… dy[…, m] x[…, k]
// Attribute `fp8`: operands are rounded to eight bits first, the first to the format that it names
// (e4m3 | e5m2), the second to e4m3.
// Attribute `scale`: times that. Attribute `out` = f32: y is f32 whatever x is. Weights keep the
// dimension that is divided: qkv is [heads, 3, D, F].
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

Shape join(const Shape& a, int a0, int a1, const Shape& b, int b0, int b1) {
  std::vector<int64_t> dims(a.dims().begin() + a0, a.dims().begin() + a1);
  dims.insert(dims.end(), b.dims().begin() + b0, b.dims().begin() + b1);
  return Shape(dims);
}

int contracted(const Attributes& a) { return static_cast<int>(a.integer("contract", 1)); }

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 2, "matmul takes x and w");
  const Shape &x = in[0]->shape, &w = in[1]->shape;
  const int k = contracted(a), lead = x.rank() - k, out = w.rank() - k;
  for (int d = 0; d < k; ++d)
    CHECK(x[lead + d] == w[out + d], "matmul of {} and {}", to_string(x), to_string(w));
  const DType type = a.has("out") ? DType::kF32 : in[0]->dtype;
  return {{"", type, join(x, 0, lead, w, 0, out)}};
}

std::vector<OutputSpec> infer_grad_input(const Attributes& a, const Inputs& in) {
  const Shape &dy = in[0]->shape, &w = in[1]->shape;
  const int out = w.rank() - contracted(a);
  return {{".gradient", in[0]->dtype, join(dy, 0, dy.rank() - out, w, out, w.rank())}};
}

std::vector<OutputSpec> infer_grad_weight(const Attributes& a, const Inputs& in) {
  const Shape &dy = in[0]->shape, &x = in[1]->shape;
  const int lead = x.rank() - contracted(a);
  CHECK(dy.product(0, lead) == x.product(0, lead), "matmul_grad_weight of {} and {}", to_string(dy),
        to_string(x));
  return {{".gradient", sum_type(a), join(dy, lead, dy.rank(), x, lead, x.rank())}};
}

// Labels: a… for rows, m… for outputs, x… for what is contracted.
struct Labels {
  std::string rows, out, in;
};
Labels labels(int rows, int out, int in) {
  Labels l;
  for (int d = 0; d < rows; ++d) l.rows += static_cast<char>('a' + d);
  for (int d = 0; d < out; ++d) l.out += static_cast<char>('m' + d);
  for (int d = 0; d < in; ++d) l.in += static_cast<char>('u' + d);
  return l;
}

ShardingRule sharding(const Op& op, ValueSpan values) {
  const int k = contracted(op.attributes);
  const Shape &x = values[op.inputs[0]].shape, &w = values[op.inputs[1]].shape;
  const Labels l = labels(x.rank() - k, w.rank() - k, k);
  return {{l.rows + l.in, l.out + l.in}, {l.rows + l.out}, l.rows + l.out + l.in, {{0}, {1}}};
}
ShardingRule sharding_grad_input(const Op& op, ValueSpan values) {
  const int k = contracted(op.attributes);
  const Shape &dy = values[op.inputs[0]].shape, &w = values[op.inputs[1]].shape;
  const int out = w.rank() - k;
  const Labels l = labels(dy.rank() - out, out, k);
  return {{l.rows + l.out, l.out + l.in}, {l.rows + l.in}, l.rows + l.out + l.in, {{0}, {1}}};
}
ShardingRule sharding_grad_weight(const Op& op, ValueSpan values) {
  const int k = contracted(op.attributes);
  const Shape &dy = values[op.inputs[0]].shape, &x = values[op.inputs[1]].shape;
  const int rows = x.rank() - k;
  const Labels l = labels(rows, dy.rank() - rows, k);
  return {{l.rows + l.out, l.rows + l.in}, {l.out + l.in}, l.rows + l.out + l.in, {{0}, {1}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId x = op.inputs[0], w = op.inputs[1];
  ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  Builder& b = g.builder();
  Attributes a = {{"contract", int64_t{contracted(op.attributes)}}};
  if (op.attributes.has("scale")) a.set("scale", op.attributes.number("scale"));
  if (g[dy].dtype != g[w].dtype)  // products have operands of one type
    dy = b.emit_one(OpKind::kCast, op.origin, {{"to", std::string(name_of(g[w].dtype))}}, {dy});
  b.emit(OpKind::kMatmulGradWeight, op.origin, a, {dy, x}, {g.weight(w)});
  if (g.wanted(x)) g.add(x, b.emit_one(OpKind::kMatmulGradInput, op.origin, a, {dy, w}));
}

// The second operand [rows, columns] is w, of which the forward contracts the columns, or x, of
// which the weight gradient contracts the rows.
Cost cost_of_product(const Op& op, ValueSpan values, ProductKind kind) {
  const Value& a = values[op.inputs[0]];
  const Shape& b = values[op.inputs[1]].shape;
  const int64_t rows = b.product(0, b.rank() - contracted(op.attributes));
  const int64_t columns = b.elements() / rows;
  ProductShape s;
  s.type = a.dtype;
  s.kind = kind;
  s.fp8 = op.attributes.has("fp8");
  s.n = kind == ProductKind::kForward ? rows : columns;
  s.k = kind == ProductKind::kForward ? columns : rows;
  s.m = a.shape.elements() / s.k;
  return product_cost(op, values, Work::kProduct, {s});
}

Cost cost(const Op& op, ValueSpan values) {
  return cost_of_product(op, values, ProductKind::kForward);
}
Cost cost_grad_input(const Op& op, ValueSpan values) {
  return cost_of_product(op, values, ProductKind::kInputGradient);
}
Cost cost_grad_weight(const Op& op, ValueSpan values) {
  return cost_of_product(op, values, ProductKind::kWeightGradient);
}

}  // namespace

const OpRule kMatmulRule = {.kind = OpKind::kMatmul,
                            .name = "matmul",
                            .infer = infer,
                            .sharding = sharding,
                            .gradient = gradient,
                            .cost = cost,
                            .prepared = Prepared::kProduct,
                            .time = TimeGroup::kMatrix};
const OpRule kMatmulGradInputRule = {.kind = OpKind::kMatmulGradInput,
                                     .name = "matmul_grad_input",
                                     .infer = infer_grad_input,
                                     .sharding = sharding_grad_input,
                                     .cost = cost_grad_input,
                                     .prepared = Prepared::kProduct,
                                     .time = TimeGroup::kMatrix};
const OpRule kMatmulGradWeightRule = {.kind = OpKind::kMatmulGradWeight,
                                      .name = "matmul_grad_weight",
                                      .infer = infer_grad_weight,
                                      .sharding = sharding_grad_weight,
                                      .cost = cost_grad_weight,
                                      .prepared = Prepared::kProduct,
                                      .time = TimeGroup::kMatrix};

}  // namespace tessera
