// Rules of the norm of queries and keys. Dimensions: b samples, t tokens, k key/value heads, g
// slots of a group, d head size, q queries of a group, s the two sums. Heads can be split: the
// gradients of gains that all heads share and the sums of squares over heads are then partial sums.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

void check_gains(const HeadNorm& a, const Shape& qkv, const Shape& query, const Shape& key) {
  const int64_t K = qkv[2], G = qkv[3] - 2, D = qkv[4];
  CHECK(query == (a.whole ? Shape{K, G, D} : Shape{D}) && key == (a.whole ? Shape{K, D} : Shape{D}),
        "head_norm of {} with gains {} and {}", to_string(qkv), to_string(query), to_string(key));
}

Shape squares_shape(const Shape& qkv) { return {qkv[0], qkv[1], 2}; }

template <class A>
const HeadNorm& norm_of(const A& a) {
  if constexpr (requires { a.of; })
    return a.of;
  else
    return a;
}

// A is HeadNorm or its gradient.
template <class A>
void check_inputs(const A& a, const Inputs& in) {
  CHECK(in.size() == input_count(a) && in[0]->shape.rank() == 5 && in[0]->shape[3] > 2,
        "{} needs packed qkv and gains", A::kName);
  const Shape& qkv = in[0]->shape;
  check_gains(norm_of(a), qkv, in[1]->shape, in[2]->shape);
  if (norm_of(a).whole)
    CHECK(in.back()->shape == squares_shape(qkv), "{} of {} with squares {}", A::kName,
          to_string(qkv), to_string(in.back()->shape));
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  check_inputs(op.as<HeadNorm>(), in);
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  const HeadNormGrad& a = op.as<HeadNormGrad>();
  check_inputs(a, in);
  CHECK(in[HeadNormGrad::kDy]->shape == in[0]->shape, "head_norm_grad: x and dy differ");
  std::vector<OutputSpec> out = {{".gradient", in[0]->dtype, in[0]->shape},
                                 {".query_gain.gradient", a.accum_dtype, in[1]->shape},
                                 {".key_gain.gradient", a.accum_dtype, in[2]->shape}};
  if (a.of.whole) out.push_back({".squares.gradient", DType::kF32, squares_shape(in[0]->shape)});
  return out;
}

std::vector<OutputSpec> infer_squares(const Op&, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->shape.rank() == 5, "head_squares needs packed qkv");
  return {{".squares", DType::kF32, squares_shape(in[0]->shape)}};
}

std::vector<OutputSpec> infer_squares_grad(const Op&, const Inputs& in) {
  CHECK(
      in.size() == 3 && in[1]->shape == squares_shape(in[0]->shape) && in[2]->shape == in[0]->shape,
      "head_squares_grad needs qkv, the gradient of squares and a gradient of qkv");
  return {{".gradient", in[0]->dtype, in[0]->shape}};
}

ShardingRule sharding(const Op& op, ValueSpan) {
  if (!op.as<HeadNorm>().whole) return {{"btkgd", "d", "d"}, {"btkgd"}, "btk", {}};
  return {{"btkgd", "kqd", "kd", "bts"}, {"btkgd"}, "btk", {}};
}
ShardingRule sharding_grad(const Op& op, ValueSpan) {
  if (!op.as<HeadNormGrad>().of.whole)
    return {{"btkgd", "d", "d", "btkgd"}, {"btkgd", "d", "d"}, "btk", {{3}}};
  return {{"btkgd", "kqd", "kd", "btkgd", "bts"}, {"btkgd", "kqd", "kd", "bts"}, "btk", {{3}}};
}
ShardingRule sharding_squares(const Op&, ValueSpan) { return {{"btkgd"}, {"bts"}, "btk", {}}; }
ShardingRule sharding_squares_grad(const Op&, ValueSpan) {
  return {{"btkgd", "bts", "btkgd"}, {"btkgd"}, "btk", {{1, 2}, {0, 2}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const HeadNorm& a = op.as<HeadNorm>();
  const ValueId qkv = op.inputs[0], squares = input(op, HeadNorm::kSquares);
  std::vector<ValueId> in = {qkv, op.inputs[1], op.inputs[2], dy};
  if (a.whole) in.push_back(squares);
  const auto out = g.builder().emit(HeadNormGrad{a}, op.origin, in,
                                    {kNone, g.weight(op.inputs[1]), g.weight(op.inputs[2])});
  g.add(qkv, out[0]);
  if (a.whole) g.add(squares, out[3]);
}

// The norm, which is after the squares in the forward, has given a gradient of qkv before.
void gradient_of_squares(Gradients& g, const Op& op) {
  const ValueId ds = g.of(op.outputs[0]);
  if (ds == kNone) return;
  const ValueId qkv = op.inputs[0], sofar = g.take(qkv);
  CHECK(sofar != kNone, "{} without its norm", op.origin);
  g.add(qkv, g.builder().emit_one(HeadSquaresGrad{}, op.origin, {qkv, ds, sofar}));
}

InPlace over_gradient(const Op&) { return {HeadNormGrad::kDy, HeadNormGrad::kDx}; }

}  // namespace

const OpRule HeadNorm::rule = {
    .infer = infer, .sharding = sharding, .gradient = gradient, .repeat = Repeat::kCheap};
const OpRule HeadNormGrad::rule = {
    .infer = infer_grad, .sharding = sharding_grad, .in_place = over_gradient};
const OpRule HeadSquares::rule = {
    .infer = infer_squares, .sharding = sharding_squares, .gradient = gradient_of_squares};
const OpRule HeadSquaresGrad::rule = {
    .infer = infer_squares_grad, .sharding = sharding_squares_grad, .in_place = over_last};

}  // namespace tessera
