// attention: softmax(scale · q kᵀ + bias) v from packed qkv [B, T, K, G+2, D] (K groups of G query
// heads, one key, one value) without a T × T buffer (Dao et al. 2022). Outputs out [B, T, K·G, D]
// and the log of each row's sum [B, K·G, T] in f32. A query sees the keys up to its own place; with
// attribute `whole` those behind it too. Attribute `across`: queries are [B, T, K, G, D], keys and
// values of another sequence. `bias_distance`, `seen` (documents | padding), `dropout` and `key`
// (of its mask): ir/attention_operands.h says what then follows as inputs.
// attention_grad: d_qkv, d_kv where keys stand apart, the bias's gradient (added to) where it has
// one.
// cached_attention: attention of T new tokens to those in the cache [B, C, 2, K, D] before them,
// which it extends; positions [B, T] say where they stand, and then come the new tokens' keys and
// values where they are `across`, and a bias.
#include "base/error.h"
#include "ir/attention_operands.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

Shape out_shape(const Shape& qkv, int64_t slots = 2) {
  return {qkv[0], qkv[1], qkv[2] * (qkv[3] - slots), qkv[4]};
}
// Of a group, beside its queries.
int64_t slots(const Attributes& a) { return a.has("across") ? 0 : 2; }

std::vector<OutputSpec> infer(const Attributes& a, const Inputs& in) {
  CHECK(static_cast<int>(in.size()) == attention_operands(a, 1).count && in[0]->shape.rank() == 5,
        "attention takes packed qkv and what its attributes say");
  const Shape out = out_shape(in[0]->shape, slots(a));
  return {{"", in[0]->dtype, out}, {".lse", DType::kF32, {out[0], out[2], out[1]}}};
}

std::vector<OutputSpec> infer_grad(const Attributes& a, const Inputs& in) {
  const AttentionOperands at = attention_operands(a, 4);
  CHECK(static_cast<int>(in.size()) == at.count && in[1]->shape == in[3]->shape,
        "attention_grad takes qkv, out, lse, d_out and what attention has");
  std::vector<OutputSpec> out = {{".gradient", in[0]->dtype, in[0]->shape}};
  const auto add = [&](int operand, const char* name, DType type) {
    if (operand != kNone) out.push_back({name, type, in[static_cast<size_t>(operand)]->shape});
  };
  add(at.across, ".kv.gradient", in[0]->dtype);
  add(at.bias, ".bias.gradient", sum_type(a));
  return out;
}

std::vector<OutputSpec> infer_cached(const Attributes& a, const Inputs& in) {
  CHECK(static_cast<int>(in.size()) == attention_operands(a, 2).count && in[0]->shape.rank() == 5,
        "cached_attention takes qkv, positions and what its attributes say");
  const Shape& s = in[0]->shape;
  return {{"", in[0]->dtype, out_shape(s, slots(a))},
          {".cache", in[0]->dtype, {s[0], a.integer("context"), 2, s[2], s[4]}}};
}

// Heads of a bias are groups: it is for one query head a group.
void add_labels(const Op& op, int first, ShardingRule& r) {
  const AttentionOperands at = attention_operands(op.attributes, first);
  const auto add = [&](int operand, const char* labels) {
    if (operand != kNone) r.inputs.emplace_back(labels);
  };
  add(at.across, "bskpd");
  add(at.bias, "kn");
  add(at.seen, at.across == kNone ? "bt" : "bs");
  add(at.samples, "b");
  add(at.step, "e");
}

ShardingRule sharding(const Op& op, ValueSpan) {
  ShardingRule r{{"btkgd"}, {"btkd", "bkt"}, "bk", {}};
  add_labels(op, 1, r);
  return r;
}
ShardingRule sharding_grad(const Op& op, ValueSpan) {
  ShardingRule r{{"btkgd", "btkd", "bkt", "btkd"}, {"btkgd"}, "bk", {{3}}};
  const AttentionOperands at = attention_operands(op.attributes, 4);
  add_labels(op, 4, r);
  if (at.across != kNone) r.outputs.emplace_back("bskpd");
  if (at.bias != kNone) r.outputs.emplace_back("kn");
  return r;
}
ShardingRule sharding_cached(const Op& op, ValueSpan) {
  ShardingRule r{{"btkgd", "bt"}, {"btkd", "bcpkd"}, "bk", {}};
  add_labels(op, 2, r);
  return r;
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  std::vector<ValueId> in = {op.inputs[0], op.outputs[0], op.outputs[1], dy};
  in.insert(in.end(), op.inputs.begin() + 1, op.inputs.end());
  const AttentionOperands at = attention_operands(op.attributes, 1);
  std::vector<ValueId> out(at.across == kNone ? 1 : 2, kNone);
  if (at.bias != kNone) out.push_back(g.weight(op.inputs[static_cast<size_t>(at.bias)]));
  out = g.builder().emit(OpKind::kAttentionGrad, op.origin, op.attributes, in, out);
  g.add(op.inputs[0], out[0]);
  if (at.across != kNone) g.add(op.inputs[static_cast<size_t>(at.across)], out[1]);
}

// Half of the T × T pairs are masked, unless all are seen; each pair costs two products of D.
double flops(const Op& op, ValueSpan values) {
  const Shape out = out_shape(values[op.inputs[0]].shape, slots(op.attributes));
  const auto t = static_cast<double>(out[1]);
  double pairs = 0.5 * t * (t + 1);
  if (op.attributes.has("whole")) {
    const bool forward = op.kind == OpKind::kAttention;
    const int kv = attention_operands(op.attributes, forward ? 1 : 4).across;
    const auto keys = static_cast<size_t>(kv == kNone ? 0 : kv);
    pairs = t * static_cast<double>(values[op.inputs[keys]].shape[1]);
  }
  return 4 * static_cast<double>(out[0] * out[2] * out[3]) * pairs;
}
double flops_grad(const Op& op, ValueSpan values) { return 2.5 * flops(op, values); }
double flops_cached(const Op& op, ValueSpan values) {
  const Shape &out = values[op.outputs[0]].shape, &cache = values[op.outputs[1]].shape;
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
