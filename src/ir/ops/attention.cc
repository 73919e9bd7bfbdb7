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

Cost cost_of_pairs(const Op& op, ValueSpan values, double pairs, int64_t products) {
  const Value& queries = values[op.inputs[0]];
  Cost c = sweep_cost(op, values);
  c.work = Work::kAttention;
  c.attention = {pairs, queries.shape[4], products, queries.dtype};
  const double flops = c.attention.flops();
  c.flops = {flops, flops, flops};
  return c;
}

// Half of the T × T pairs are masked, unless all are seen; `kv` is the operand of the keys.
double visited_pairs(const Op& op, ValueSpan values, int kv) {
  const Shape &q = values[op.inputs[0]].shape, out = out_shape(q, slots(op.attributes));
  const auto t = static_cast<double>(out[1]);
  const auto heads = static_cast<double>(out[0] * out[2]);
  if (!op.attributes.has("whole")) return heads * 0.5 * t * (t + 1);
  const auto keys = static_cast<size_t>(kv == kNone ? 0 : kv);
  return heads * t * static_cast<double>(values[op.inputs[keys]].shape[1]);
}

// Counts the pairs that a causal mask leaves out too, whatever the mask of the op is.
double with_masked_pairs(double flops, const Op& op, ValueSpan values) {
  const auto t = static_cast<double>(values[op.inputs[0]].shape[1]);
  return flops * 2 * t / (t + 1);
}

Cost cost(const Op& op, ValueSpan values) {
  const int kv = attention_operands(op.attributes, 1).across;
  Cost c = cost_of_pairs(op, values, visited_pairs(op, values, kv), 2);
  c.flops.square = with_masked_pairs(c.flops.model, op, values);
  return c;
}

// Five products: the scores are made once more, which the model's four do not count.
Cost cost_grad(const Op& op, ValueSpan values) {
  const int kv = attention_operands(op.attributes, 4).across;
  Cost c = cost_of_pairs(op, values, visited_pairs(op, values, kv), 5);
  c.flops.model = 0.8 * c.flops.hardware;
  c.flops.square = with_masked_pairs(c.flops.model, op, values);
  return c;
}

// Every place of the cache is visited.
Cost cost_cached(const Op& op, ValueSpan values) {
  const Shape &out = values[op.outputs[0]].shape, &cache = values[op.outputs[1]].shape;
  const auto queries = static_cast<double>(out.product(0, 3));
  return cost_of_pairs(op, values, queries * static_cast<double>(cache[1]), 2);
}

}  // namespace

const OpRule kAttentionRule = {.kind = OpKind::kAttention,
                               .name = "attention",
                               .infer = infer,
                               .sharding = sharding,
                               .gradient = gradient,
                               .cost = cost,
                               .repeat = Repeat::kAttention,
                               .prepared = Prepared::kAttention,
                               .time = TimeGroup::kAttention};
const OpRule kAttentionGradRule = {.kind = OpKind::kAttentionGrad,
                                   .name = "attention_grad",
                                   .infer = infer_grad,
                                   .sharding = sharding_grad,
                                   .cost = cost_grad,
                                   .prepared = Prepared::kAttention,
                                   .time = TimeGroup::kAttention};
const OpRule kCachedAttentionRule = {.kind = OpKind::kCachedAttention,
                                     .name = "cached_attention",
                                     .infer = infer_cached,
                                     .sharding = sharding_cached,
                                     .cost = cost_cached,
                                     .time = TimeGroup::kAttention};

}  // namespace tessera
