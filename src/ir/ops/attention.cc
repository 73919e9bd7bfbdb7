// attention: causal softmax(scale · q kᵀ) v from packed qkv [B, T, K, G+2, D] (K groups of G query
// heads, one key, one value) without a T × T buffer (Dao et al. 2022). Outputs out [B, T, K·G, D]
// and the log of each row's sum [B, K·G, T] in f32. With attribute `dropout`: inputs samples and
// step follow, and `key` names the mask.
// cached_attention: the same for T new tokens after those in the cache [B, C, 2, K, D], which it
// extends; positions [B, T] say where they stand.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

Shape out_shape(const Shape& qkv) { return {qkv[0], qkv[1], qkv[2] * (qkv[3] - 2), qkv[4]}; }

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == (a.number("dropout") > 0 ? 3u : 1u) && in[0]->shape.rank() == 5,
        "attention takes packed qkv");
  const Shape& s = in[0]->shape;
  return {{"", in[0]->dtype, out_shape(s)}, {".lse", DType::kF32, {s[0], s[2] * (s[3] - 2), s[1]}}};
}

std::vector<OutputSpec> infer_grad(const Attributes&, const Inputs& in) {
  CHECK(in.size() >= 4 && in[1]->shape == in[3]->shape,
        "attention_grad takes qkv, out, lse, d_out");
  return {{".gradient", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_cached(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 2 && in[0]->shape.rank() == 5, "cached_attention takes qkv and positions");
  const Shape& s = in[0]->shape;
  return {{"", in[0]->dtype, out_shape(s)},
          {".cache", in[0]->dtype, {s[0], a.integer("context"), 2, s[2], s[4]}}};
}

ShardingRule sharding(const Op& op, std::span<const Value>) {
  ShardingRule r{{"btkgd"}, {"btkd", "bkt"}, "bk", {}};
  if (op.inputs.size() > 1) r.inputs.insert(r.inputs.end(), {"b", "s"});
  return r;
}
ShardingRule sharding_grad(const Op& op, std::span<const Value>) {
  ShardingRule r{{"btkgd", "btkd", "bkt", "btkd"}, {"btkgd"}, "bk", {{3}}};
  if (op.inputs.size() > 4) r.inputs.insert(r.inputs.end(), {"b", "s"});
  return r;
}
ShardingRule sharding_cached(const Op&, std::span<const Value>) {
  return {{"btkgd", "bt"}, {"btkd", "bcpkd"}, "bk", {}};
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  std::vector<ValueId> in = {op.inputs[0], op.outputs[0], op.outputs[1], dy};
  in.insert(in.end(), op.inputs.begin() + 1, op.inputs.end());
  g.add(op.inputs[0], g.builder().emit_one(OpKind::kAttentionGrad, op.origin, op.attributes, in));
}

// Half of the T × T pairs are masked; each pair costs two products of D.
double flops(const Op& op, std::span<const Value> values) {
  const Shape& s = at(values, op.inputs[0]).shape;
  const double pairs = 0.5 * static_cast<double>(s[1]) * static_cast<double>(s[1] + 1);
  return 4 * static_cast<double>(s[0] * s[2] * (s[3] - 2) * s[4]) * pairs;
}
double flops_grad(const Op& op, std::span<const Value> values) { return 2.5 * flops(op, values); }
double flops_cached(const Op& op, std::span<const Value> values) {
  const Shape &out = at(values, op.outputs[0]).shape, &cache = at(values, op.outputs[1]).shape;
  return 4 * static_cast<double>(out.elements() * cache[1]);
}

}  // namespace

const OpRule kAttentionRule = {OpKind::kAttention, "attention", infer, sharding, gradient, flops};
const OpRule kAttentionGradRule = {OpKind::kAttentionGrad, "attention_grad", infer_grad,
                                   sharding_grad,          nullptr,          flops_grad};
const OpRule kCachedAttentionRule = {OpKind::kCachedAttention,
                                     "cached_attention",
                                     infer_cached,
                                     sharding_cached,
                                     nullptr,
                                     flops_cached};

}  // namespace tessera
