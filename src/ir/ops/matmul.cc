// Rules of the GEMM with a weight and of its gradients. With leading dimensions L, contracted K and
// output M (each one or several dimensions):
//
//   y [L, M] = x [L, K] w [M, K]^T,   dx [L, K] = dy [L, M] w,   dw [M, K] = sum_L dy^T x
//
// Splitting M is column parallelism, splitting K row parallelism with a partial y (Shoeybi et al.
// 2019); splitting L is data or sequence parallelism, with a partial dw. All follow from the
// labels.
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

constexpr int64_t kMostLabels = 6;  // length of "uvwxyz"

// Returns the number of dimensions that the op contracts.
template <class A>
int contracted(const Op& op) {
  const int64_t n = op.as<A>().contract;
  CHECK(n > 0 && n <= kMostLabels, "{} contracts {} dimensions", op.origin, n);
  return static_cast<int>(n);
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  CHECK(in.size() == 2, "matmul expects x and w");
  const Shape &x = in[0]->shape, &w = in[1]->shape;
  const int k = contracted<Matmul>(op), lead = x.rank() - k, out = w.rank() - k;
  CHECK(lead >= 0 && out >= 0, "matmul of {} and {} over {} dimensions", to_string(x), to_string(w),
        k);
  for (int d = 0; d < k; ++d)
    CHECK(x[lead + d] == w[out + d], "matmul of {} and {}", to_string(x), to_string(w));
  const DType type = op.as<Matmul>().out.value_or(in[0]->dtype);
  return {{"", type, join(x, 0, lead, w, 0, out)}};
}

// The shape has the leading dimensions of dy, then the contracted ones of w.
std::vector<OutputSpec> infer_grad_input(const Op& op, const Inputs& in) {
  const Shape &dy = in[0]->shape, &w = in[1]->shape;
  const int out = w.rank() - contracted<MatmulGradInput>(op);
  CHECK(out >= 0 && out <= dy.rank(), "matmul_grad_input of {} and {}", to_string(dy),
        to_string(w));
  return {{".gradient", in[0]->dtype, join(dy, 0, dy.rank() - out, w, out, w.rank())}};
}

std::vector<OutputSpec> infer_grad_weight(const Op& op, const Inputs& in) {
  const Shape &dy = in[0]->shape, &x = in[1]->shape;
  const int lead = x.rank() - contracted<MatmulGradWeight>(op);
  CHECK(lead >= 0 && lead <= dy.rank(), "matmul_grad_weight of {} and {}", to_string(dy),
        to_string(x));
  CHECK(dy.product(0, lead) == x.product(0, lead), "matmul_grad_weight of {} and {}", to_string(dy),
        to_string(x));
  const DType sum = op.as<MatmulGradWeight>().accum_dtype;
  return {{".gradient", sum, join(dy, lead, dy.rank(), x, lead, x.rank())}};
}

// Labels: a… for rows, m… for outputs, u… for contracted dimensions.
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
  const int k = contracted<Matmul>(op);
  const Shape &x = values[op.inputs[0]].shape, &w = values[op.inputs[1]].shape;
  const Labels l = labels(x.rank() - k, w.rank() - k, k);
  return {{l.rows + l.in, l.out + l.in}, {l.rows + l.out}, l.rows + l.out + l.in, {{0}, {1}}};
}
ShardingRule sharding_grad_input(const Op& op, ValueSpan values) {
  const int k = contracted<MatmulGradInput>(op);
  const Shape &dy = values[op.inputs[0]].shape, &w = values[op.inputs[1]].shape;
  const int out = w.rank() - k;
  const Labels l = labels(dy.rank() - out, out, k);
  return {{l.rows + l.out, l.out + l.in}, {l.rows + l.in}, l.rows + l.out + l.in, {{0}, {1}}};
}
ShardingRule sharding_grad_weight(const Op& op, ValueSpan values) {
  const int k = contracted<MatmulGradWeight>(op);
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
  const Matmul& a = op.as<Matmul>();
  if (g[dy].dtype != g[w].dtype)  // both operands of a GEMM have one dtype
    dy = b.emit_one(Cast{g[w].dtype}, op.origin, {dy});
  b.emit(MatmulGradWeight{a.contract, a.scale}, op.origin, {dy, x}, {g.weight(w)});
  if (g.wanted(x)) g.add(x, b.emit_one(MatmulGradInput{a.contract, a.scale}, op.origin, {dy, w}));
}

// The second operand is [rows, columns]: either w, whose columns the forward contracts and whose
// rows the input gradient contracts, or x, whose rows the weight gradient contracts.
template <class A>
Cost cost_of_product(const Op& op, ValueSpan values, GemmKind kind) {
  const Value& a = values[op.inputs[0]];
  const Shape& b = values[op.inputs[1]].shape;
  const int64_t rows = b.product(0, b.rank() - contracted<A>(op));
  const int64_t columns = b.elements() / rows;
  GemmShape s;
  s.type = a.dtype;
  s.kind = kind;
  s.fp8 = op.as<A>().fp8 != Fp8Format::kStored;
  s.n = kind == GemmKind::kForward ? rows : columns;
  s.k = kind == GemmKind::kForward ? columns : rows;
  s.m = a.shape.elements() / s.k;
  return product_cost(op, values, Work::kProduct, {s});
}

Cost cost(const Op& op, ValueSpan values) {
  return cost_of_product<Matmul>(op, values, GemmKind::kForward);
}
Cost cost_grad_input(const Op& op, ValueSpan values) {
  return cost_of_product<MatmulGradInput>(op, values, GemmKind::kInputGradient);
}
Cost cost_grad_weight(const Op& op, ValueSpan values) {
  return cost_of_product<MatmulGradWeight>(op, values, GemmKind::kWeightGradient);
}

}  // namespace

const OpRule Matmul::rule = {.infer = infer,
                             .sharding = sharding,
                             .gradient = gradient,
                             .cost = cost,
                             .prepared = Prepared::kProduct,
                             .time = TimeGroup::kMatrix};
const OpRule MatmulGradInput::rule = {.infer = infer_grad_input,
                                      .sharding = sharding_grad_input,
                                      .cost = cost_grad_input,
                                      .prepared = Prepared::kProduct,
                                      .time = TimeGroup::kMatrix};
const OpRule MatmulGradWeight::rule = {.infer = infer_grad_weight,
                                       .sharding = sharding_grad_weight,
                                       .cost = cost_grad_weight,
                                       .prepared = Prepared::kProduct,
                                       .time = TimeGroup::kMatrix};

}  // namespace tessera
