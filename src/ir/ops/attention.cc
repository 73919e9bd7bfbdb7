// Rules of fused attention, its gradient, and attention to a cache. Dimensions: b samples, t
// queries, s keys, k key/value heads, g query heads per key/value head (with key and value as two
// more slots), d head size. b and k can be split, and t if the keys are an operand of their own:
// softmax needs all keys of a query.
#include <algorithm>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

Shape out_shape(const Shape& qkv, int64_t slots = 2) {
  return {qkv[0], qkv[1], qkv[2] * (qkv[3] - slots), qkv[4]};
}
// Slots of a group after its queries: a key and a value, unless these come from another sequence.
int64_t slots(bool separate_kv) { return separate_kv ? 0 : 2; }

Shape lse_shape(const Shape& out) { return {out[0], out[2], out[1]}; }

// CHECKs the operands that A, one of the three ops, has only by its attributes: keys and values of
// another sequence, and a table of biases, of which half are of near distances.
template <class A>
void check_optional(const A& a, int64_t bias_distance, const Inputs& in, const Shape& out) {
  const auto operand = [&](typename A::In slot) -> const Shape* {
    const int at = input_index(a, slot);
    return at == kNone ? nullptr : &in[at]->shape;
  };
  const Shape& q = in[0]->shape;
  if (const Shape* const kv = operand(A::kKv))
    CHECK(kv->rank() == 5 && (*kv)[2] == q[2] && (*kv)[3] == 2, "{} of {} and {}", A::kName,
          to_string(q), to_string(*kv));
  if (const Shape* const bias = operand(A::kBias))
    CHECK(bias->rank() == 2 && (*bias)[0] == out[2] && bias_distance > (*bias)[1] / 2,
          "{} of {} with biases {} of distances up to {}", A::kName, to_string(q), to_string(*bias),
          bias_distance);
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const Attention& a = op.as<Attention>();
  CHECK(in.size() == input_count(a) && in[0]->shape.rank() == 5,
        "attention expects packed qkv and the operands of its attributes");
  CHECK(a.window == 0 || !a.non_causal, "a window of {} in attention to all keys", a.window);
  CHECK(a.soft_cap == 0 || a.bias_distance == 0, "attention with a soft cap and biases");
  const Shape out = out_shape(in[0]->shape, slots(a.separate_kv));
  check_optional(a, a.bias_distance, in, out);
  return {{"", in[0]->dtype, out}, {".lse", DType::kF32, lse_shape(out)}};
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  const AttentionGrad& a = op.as<AttentionGrad>();
  CHECK(in.size() == input_count(a) && in[0]->shape.rank() == 5,
        "attention_grad expects qkv, out, lse, d_out and the further operands of attention");
  const Shape of = out_shape(in[0]->shape, slots(a.of.separate_kv));
  CHECK(in[1]->shape == of && in[2]->shape == lse_shape(of) && in[3]->shape == of,
        "attention_grad of {}, {}, {} and {}", to_string(in[0]->shape), to_string(in[1]->shape),
        to_string(in[2]->shape), to_string(in[3]->shape));
  check_optional(a, a.of.bias_distance, in, of);
  // Where a rank has some of the queries, the gradient of the packed heads is that of split_heads.
  const char* const queries =
      a.of.separate_kv && !a.of.non_causal ? ".queries.gradient" : ".gradient";
  std::vector<OutputSpec> out = {{queries, in[0]->dtype, in[0]->shape}};
  const auto add = [&](AttentionGrad::In slot, const char* name, DType type) {
    const int operand = input_index(a, slot);
    if (operand != kNone) out.push_back({name, type, in[operand]->shape});
  };
  add(AttentionGrad::kKv, ".kv.gradient", in[0]->dtype);
  add(AttentionGrad::kBias, ".bias.gradient", a.accum_dtype);
  return out;
}

std::vector<OutputSpec> infer_cached(const Op& op, const Inputs& in) {
  const CachedAttention& a = op.as<CachedAttention>();
  CHECK(in.size() == input_count(a) && in[0]->shape.rank() == 5,
        "cached_attention expects qkv, positions and the operands of its attributes");
  const Shape& s = in[0]->shape;
  const Shape made = out_shape(s, slots(a.separate_kv));
  check_optional(a, a.bias_distance, in, made);
  return {{"", in[0]->dtype, made}, {".cache", in[0]->dtype, {s[0], a.context, 2, s[2], s[4]}}};
}

// Returns the labels that can be split. Queries that see the keys up to their own place may be
// split from their keys, of which each rank then has all.
const char* split_labels(const Attention& a) {
  return a.separate_kv && !a.non_causal ? "btk" : "bk";
}

// Adds the labels of optional operands. A is one of the three ops. A bias has one row per head,
// labeled as a group: it requires one query head per group.
template <class A>
void add_labels(const A& a, bool separate_kv, ShardingRule& r) {
  A::inputs(a, [&](typename A::In slot, bool has) {
    if (!has) return;
    if (slot == A::kKv) r.inputs.emplace_back("bskpd");
    if (slot == A::kBias) r.inputs.emplace_back("kn");
    if constexpr (requires { A::kMask; }) {
      if (slot == A::kMask) r.inputs.emplace_back(separate_kv ? "bs" : "bt");
      if (slot == A::kSamples) r.inputs.emplace_back("b");
      if (slot == A::kStep) r.inputs.emplace_back("e");
    }
  });
}

ShardingRule sharding(const Op& op, ValueSpan) {
  const Attention& a = op.as<Attention>();
  ShardingRule r{{"btkgd"}, {"btkd", "bkt"}, split_labels(a), {}, false, false, "k"};
  add_labels(a, a.separate_kv, r);
  return r;
}
// Linear in d_out (input 3) only: it is multiplied by the other inputs.
ShardingRule sharding_grad(const Op& op, ValueSpan) {
  const AttentionGrad& a = op.as<AttentionGrad>();
  ShardingRule r{
      {"btkgd", "btkd", "bkt", "btkd"}, {"btkgd"}, split_labels(a.of), {{3}}, false, false, "k"};
  add_labels(a, a.of.separate_kv, r);
  if (output_index(a, AttentionGrad::kDKv) != kNone) r.outputs.emplace_back("bskpd");
  if (output_index(a, AttentionGrad::kDBias) != kNone) r.outputs.emplace_back("kn");
  return r;
}
ShardingRule sharding_cached(const Op& op, ValueSpan) {
  ShardingRule r{{"btkgd", "bt"}, {"btkd", "bcpkd"}, "bk", {}, false, false, "k"};
  const CachedAttention& a = op.as<CachedAttention>();
  add_labels(a, a.separate_kv, r);
  return r;
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  // The backward regenerates probabilities from lse, so it reads out and lse instead of them.
  std::vector<ValueId> in = {op.inputs[0], op.outputs[0], op.outputs[1], dy};
  in.insert(in.end(), op.inputs.begin() + 1, op.inputs.end());
  const ValueId kv = input(op, Attention::kKv), bias = input(op, Attention::kBias);
  std::vector<ValueId> out(kv == kNone ? 1 : 2, kNone);
  if (bias != kNone) out.push_back(g.weight(bias));
  out = g.builder().emit(AttentionGrad{op.as<Attention>()}, op.origin, in, out);
  g.add(op.inputs[0], out[0]);
  if (kv != kNone) g.add(kv, out[1]);
}

// Each GEMM does 2 D operations per visible pair of query and key.
Cost cost_of_pairs(const Op& op, ValueSpan values, double pairs, int64_t products) {
  const Value& queries = values[op.inputs[0]];
  Cost c = sweep_cost(op, values);
  c.work = Work::kAttention;
  c.attention = {pairs, queries.shape[4], products, queries.dtype};
  const double flops = c.attention.flops();
  c.flops = {flops, flops, flops};
  return c;
}

// Returns the pairs that a causal mask and a window w leave of t x t: w (w + 1) / 2 of the first w
// queries, and w of each later one.
double causal_pairs(double t, int64_t window) {
  const double w = window > 0 ? std::min(t, static_cast<double>(window)) : t;
  return 0.5 * w * (w + 1) + (t - w) * w;
}

// Returns the pairs of the last t queries of a sequence of s tokens: those of the rank that has the
// most, where several ranks divide the queries.
double last_causal_pairs(int64_t t, int64_t s, int64_t window) {
  return causal_pairs(static_cast<double>(s), window) -
         causal_pairs(static_cast<double>(s - t), window);
}

// Returns the visible pairs of query and key. `kv` has the keys if they are an operand of their
// own.
double visited_pairs(const Op& op, ValueSpan values, const Attention& a, ValueId kv) {
  const Shape &q = values[op.inputs[0]].shape, out = out_shape(q, slots(a.separate_kv));
  const int64_t t = out[1], s = values[kv == kNone ? op.inputs[0] : kv].shape[1];
  const auto heads = static_cast<double>(out[0] * out[2]);
  if (!a.non_causal) return heads * last_causal_pairs(t, s, a.window);
  return heads * static_cast<double>(t) * static_cast<double>(s);
}

// Scales the FLOPs of the visited pairs: the model counts the mean over the ranks that divide the
// queries, and `square` includes the pairs that the mask omits.
void count_pairs(Flops& flops, const Op& op, ValueSpan values, const Attention& a, ValueId kv) {
  flops.square = flops.model;
  if (a.non_causal) return;
  const int64_t t = values[op.inputs[0]].shape[1];
  const int64_t s = values[kv == kNone ? op.inputs[0] : kv].shape[1];
  const auto queries = static_cast<double>(t), keys = static_cast<double>(s);
  const double last = last_causal_pairs(t, s, a.window);
  flops.square *= queries * keys / last;
  flops.model *= causal_pairs(keys, a.window) * queries / keys / last;
}

Cost cost(const Op& op, ValueSpan values) {
  const ValueId kv = input(op, Attention::kKv);
  const Attention& a = op.as<Attention>();
  Cost c = cost_of_pairs(op, values, visited_pairs(op, values, a, kv), 2);
  count_pairs(c.flops, op, values, a, kv);
  return c;
}

// Five GEMMs: scores, dv, dp, dq and dk. The scores are recomputed, so the model counts four.
Cost cost_grad(const Op& op, ValueSpan values) {
  const ValueId kv = input(op, AttentionGrad::kKv);
  const Attention& a = op.as<AttentionGrad>().of;
  Cost c = cost_of_pairs(op, values, visited_pairs(op, values, a, kv), 5);
  c.flops.model = 0.8 * c.flops.hardware;
  count_pairs(c.flops, op, values, a, kv);
  return c;
}

// Every position of the cache is visited, or those of the window.
Cost cost_cached(const Op& op, ValueSpan values) {
  const Shape &out = values[op.outputs[0]].shape, &cache = values[op.outputs[1]].shape;
  const int64_t window = op.as<CachedAttention>().window;
  const int64_t keys = window > 0 ? std::min(window + out[1] - 1, cache[1]) : cache[1];
  const auto queries = static_cast<double>(out.product(0, 3));
  return cost_of_pairs(op, values, queries * static_cast<double>(keys), 2);
}

}  // namespace

const OpRule Attention::rule = {.infer = infer,
                                .sharding = sharding,
                                .gradient = gradient,
                                .cost = cost,
                                .repeat = Repeat::kAttention,
                                .prepared = Prepared::kAttention,
                                .time = TimeGroup::kAttention};
const OpRule AttentionGrad::rule = {.infer = infer_grad,
                                    .sharding = sharding_grad,
                                    .cost = cost_grad,
                                    .prepared = Prepared::kAttention,
                                    .time = TimeGroup::kAttention};
const OpRule CachedAttention::rule = {.infer = infer_cached,
                                      .sharding = sharding_cached,
                                      .cost = cost_cached,
                                      .time = TimeGroup::kAttention};

}  // namespace tessera
