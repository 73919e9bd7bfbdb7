// Rules of the ops that pack the heads of latent attention. Dimensions: b samples, t tokens, k
// heads, s the slots query, key and value of a head. Ranks that divide the heads have all of the
// shared part, whose gradient on each of them is the sum over its own heads.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

Shape heads_of(const Shape& s, int64_t width) { return {s[0], s[1], s[2], width}; }

std::vector<OutputSpec> infer(const Op&, const Inputs& in) {
  CHECK(in.size() == 3 && in[0]->shape.rank() == 4 && in[2]->shape.rank() == 3,
        "latent_heads expects queries, expanded and shared");
  const Shape &q = in[0]->shape, &expanded = in[1]->shape, &shared = in[2]->shape;
  const int64_t own = q[3] - shared[2], values = expanded.rank() == 4 ? expanded[3] - own : 0;
  CHECK(expanded == heads_of(q, own + values) && shared == Shape({q[0], q[1], shared[2]}) &&
            shared[2] % 2 == 0 && own >= 0 && values >= 1 && values <= q[3],
        "latent_heads of {}, {} and {}", to_string(q), to_string(expanded), to_string(shared));
  return {{"", in[0]->dtype, {q[0], q[1], q[2], 3, q[3]}}};
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->shape.rank() == 5 && in[0]->shape[3] == 3,
        "latent_heads_grad expects the gradient of packed heads");
  const LatentHeadsGrad& a = op.as<LatentHeadsGrad>();
  const Shape& s = in[0]->shape;
  CHECK(a.shared_width % 2 == 0 && a.shared_width <= s[4] && a.value_width <= s[4],
        "parts of {} and {} in heads of {}", a.shared_width, a.value_width, s[4]);
  const DType type = in[0]->dtype;
  return {{".queries.gradient", type, heads_of(s, s[4])},
          {".expanded.gradient", type, heads_of(s, s[4] - a.shared_width + a.value_width)},
          {".shared.gradient", type, {s[0], s[1], a.shared_width}}};
}

ShardingRule sharding(const Op&, ValueSpan) {
  return {{"btkd", "btke", "btr"}, {"btksd"}, "btk", {{0, 1, 2}}};
}
ShardingRule sharding_grad(const Op&, ValueSpan) {
  return {{"btksd"}, {"btkd", "btke", "btr"}, "btk", {{0}}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const int64_t width = g[op.inputs[LatentHeads::kQueries]].shape[3];
  const int64_t shared = g[op.inputs[LatentHeads::kRopeKey]].shape[2];
  const int64_t expanded = g[op.inputs[LatentHeads::kExpanded]].shape[3];
  const LatentHeadsGrad a = {shared, expanded - (width - shared)};
  const auto d = g.builder().emit(a, op.origin, {dy});
  for (size_t i = 0; i < d.size(); ++i) g.add(op.inputs[i], d[i]);
}

}  // namespace

const OpRule LatentHeads::rule = {.infer = infer, .sharding = sharding, .gradient = gradient};
const OpRule LatentHeadsGrad::rule = {.infer = infer_grad, .sharding = sharding_grad};

}  // namespace tessera
