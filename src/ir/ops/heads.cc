// Rules of ops that repeat and pack heads. Ranks that hold the same K key/value heads repeat all of
// them and use the rows of their own queries (a slice that the sharding algebra inserts), because a
// layout divides the queries of a key/value head among its copies, one row each.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

Shape with(const Shape& s, int dimension, int64_t n) {
  std::vector<int64_t> dims = s.dims();
  dims[dimension] = n;
  return Shape(dims);
}

void check_packed(const Inputs& in, size_t count, const char* what) {
  CHECK(in.size() == count && in[0]->shape.rank() == 5, "{}", what);
}

std::vector<OutputSpec> infer_repeat(const Op& op, const Inputs& in) {
  check_packed(in, 1, "repeat_heads expects keys and values");
  const Shape& s = in[0]->shape;
  return {{"", in[0]->dtype, with(s, 2, s[2] * op.as<RepeatHeads>().copies)}};
}

std::vector<OutputSpec> infer_repeat_grad(const Op& op, const Inputs& in) {
  check_packed(in, 1, "repeat_heads_grad expects the gradient of all copies");
  const Shape& s = in[0]->shape;
  const int64_t copies = op.as<RepeatHeadsGrad>().copies;
  CHECK(s[2] % copies == 0, "{} rows of {} copies", s[2], copies);
  return {{".gradient", in[0]->dtype, with(s, 2, s[2] / copies)}};
}

std::vector<OutputSpec> infer_join(const Op&, const Inputs& in) {
  check_packed(in, 2, "join_heads expects queries and pairs of a key and a value");
  const Shape &q = in[0]->shape, &pairs = in[1]->shape;
  CHECK(pairs[3] == 2 && with(q, 3, 2) == pairs, "join_heads of {} and {}", to_string(q),
        to_string(pairs));
  return {{"", in[0]->dtype, with(q, 3, q[3] + 2)}};
}

std::vector<OutputSpec> infer_split(const Op&, const Inputs& in) {
  check_packed(in, 1, "split_heads expects packed heads");
  const Shape& s = in[0]->shape;
  return {{".queries", in[0]->dtype, with(s, 3, s[3] - 2)},
          {".pairs", in[0]->dtype, with(s, 3, 2)}};
}

std::vector<OutputSpec> infer_join_pair(const Op&, const Inputs& in) {
  CHECK(in.size() == 2 && in[0]->shape.rank() == 3 && in[0]->shape == in[1]->shape,
        "join_pair expects two inputs of one shape");
  const Shape& s = in[0]->shape;
  return {{"", in[0]->dtype, {s[0], s[1], 2, s[2]}}};
}

std::vector<OutputSpec> infer_split_pair(const Op&, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->shape.rank() == 4 && in[0]->shape[2] == 2,
        "split_pair expects pairs");
  const Shape& s = in[0]->shape;
  const Shape one = {s[0], s[1], s[3]};
  return {{".first", in[0]->dtype, one}, {".second", in[0]->dtype, one}};
}

ShardingRule sharding_join_pair(const Op&, ValueSpan) {
  return {{"btf", "btf"}, {"btpf"}, "btf", {{0, 1}}};
}
ShardingRule sharding_split_pair(const Op&, ValueSpan) {
  return {{"btpf"}, {"btf", "btf"}, "btf", {{0}}};
}

ShardingRule sharding_repeat(const Op&, ValueSpan) {
  return {{"btkpd"}, {"btkpd"}, "btkpd", {{0}}, false, false, "k"};
}
ShardingRule sharding_join(const Op&, ValueSpan) {
  return {{"btkgd", "btkpd"}, {"btksd"}, "btkd", {{0, 1}}};
}
ShardingRule sharding_split(const Op&, ValueSpan) {
  return {{"btksd"}, {"btkgd", "btkpd"}, "btkd", {{0}}};
}

void gradient_repeat(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const RepeatHeadsGrad a = {op.as<RepeatHeads>().copies};
  g.add(op.inputs[0], g.builder().emit_one(a, op.origin, {dy}));
}

void gradient_join(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const auto d = g.builder().emit(SplitHeads{}, op.origin, {dy});
  g.add(op.inputs[0], d[0]);
  g.add(op.inputs[1], d[1]);
}

void gradient_split(Gradients& g, const Op& op) {
  const ValueId d_queries = g.of(op.outputs[0]), d_pairs = g.of(op.outputs[1]);
  if (d_queries == kNone && d_pairs == kNone) return;
  CHECK(d_queries != kNone && d_pairs != kNone, "{} has a gradient of one output", op.origin);
  g.add(op.inputs[0],
        g.builder().emit_one(JoinHeads{}, op.origin + ".gradient", {d_queries, d_pairs}));
}

void gradient_join_pair(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const auto d = g.builder().emit(SplitPair{}, op.origin, {dy});
  g.add(op.inputs[0], d[0]);
  g.add(op.inputs[1], d[1]);
}

}  // namespace

const OpRule RepeatHeads::rule = {
    .infer = infer_repeat, .sharding = sharding_repeat, .gradient = gradient_repeat};
const OpRule RepeatHeadsGrad::rule = {.infer = infer_repeat_grad, .sharding = sharding_repeat};
const OpRule JoinHeads::rule = {
    .infer = infer_join, .sharding = sharding_join, .gradient = gradient_join};
const OpRule SplitHeads::rule = {
    .infer = infer_split, .sharding = sharding_split, .gradient = gradient_split};
const OpRule JoinPair::rule = {
    .infer = infer_join_pair, .sharding = sharding_join_pair, .gradient = gradient_join_pair};
const OpRule SplitPair::rule = {.infer = infer_split_pair, .sharding = sharding_split_pair};

}  // namespace tessera
