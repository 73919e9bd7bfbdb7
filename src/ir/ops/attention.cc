// Rules of fused attention, its gradient, and attention to a cache. Dimensions: b samples, t
// queries, s keys, k key/value heads, g query heads per key/value head (with key and value as two
// more slots), d head size, v width of values. b and k can be split, and t if the keys are an
// operand of their own: softmax needs all keys of a query.
#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

// Slots of a group after its queries: a key and a value, unless these come from another sequence.
int64_t slots(bool separate_kv) { return separate_kv ? 0 : 2; }

// A is one of the ops that compute the output.
template <class A>
Shape out_shape(const A& a, const Shape& qkv) {
  CHECK(a.value_width >= 0 && a.value_width <= qkv[4], "values of {} in rows of {}", a.value_width,
        qkv[4]);
  const int64_t values = a.value_width > 0 ? a.value_width : qkv[4];
  return {qkv[0], qkv[1], qkv[2] * (qkv[3] - slots(a.separate_kv)), values};
}
Shape lse_shape(const Shape& out) { return {out[0], out[2], out[1]}; }

// Fails a CHECK if an optional operand of A, one of the three ops, has a wrong shape. The
// attributes of an op decide whether it has them: keys and values of another sequence, and the
// biases of relative distances.
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
  if constexpr (requires { A::kSinks; }) {
    const Shape* const sinks = operand(A::kSinks);
    CHECK(sinks == nullptr || *sinks == Shape{out[2]}, "{} of {} with sinks {}", A::kName,
          to_string(q), to_string(*sinks));
  }
}

std::vector<OutputSpec> infer_sinks_grad(const Op& op, const Inputs& in) {
  const AttentionSinksGrad& a = op.as<AttentionSinksGrad>();
  const Shape& out = in.at(1)->shape;
  CHECK(in.size() == 4 && out.rank() == 4 && in[3]->shape == out,
        "attention_sinks_grad expects sinks, out, lse and d_out");
  const Shape rows = a.by_head ? Shape{out[0], out[1], out[2]} : lse_shape(out);
  CHECK(in[2]->shape == rows && in[0]->shape == Shape{rows[1]},
        "attention_sinks_grad of sinks {}, out {}, lse {}", to_string(in[0]->shape), to_string(out),
        to_string(in[2]->shape));
  return {{".sinks.gradient", a.accum_dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const Attention& a = op.as<Attention>();
  CHECK(in.size() == input_count(a) && in[0]->shape.rank() == 5,
        "attention expects packed qkv and the operands of its attributes");
  CHECK(a.window == 0 || !a.non_causal, "a window of {} in attention to all keys", a.window);
  CHECK(a.soft_cap == 0 || a.bias_distance == 0, "attention with a soft cap and biases");
  CHECK(a.ring == 0 || (a.separate_kv && !a.non_causal && a.bias_distance == 0),
        "ring attention needs causal attention to an operand with keys, and no biases");
  const Shape out = out_shape(a, in[0]->shape);
  check_optional(a, a.bias_distance, in, out);
  return {{"", a.visit > 0 ? DType::kF32 : in[0]->dtype, out},
          {".lse", DType::kF32, lse_shape(out)}};
}

std::vector<OutputSpec> infer_grad(const Op& op, const Inputs& in) {
  const AttentionGrad& a = op.as<AttentionGrad>();
  CHECK(!a.of.sinks && in.size() == input_count(a) && in[0]->shape.rank() == 5,
        "attention_grad expects qkv, out, lse, d_out and the further operands of attention");
  const Shape of = out_shape(a.of, in[0]->shape);
  CHECK(in[1]->shape == of && in[2]->shape == lse_shape(of) && in[3]->shape == of,
        "attention_grad of {}, {}, {} and {}", to_string(in[0]->shape), to_string(in[1]->shape),
        to_string(in[2]->shape), to_string(in[3]->shape));
  check_optional(a, a.of.bias_distance, in, of);
  // Where a rank has some of the queries, the gradient of the packed heads is that of split_heads.
  const char* const queries =
      a.of.separate_kv && !a.of.non_causal ? ".queries.gradient" : ".gradient";
  const DType made = a.of.visit > 0 ? DType::kF32 : in[0]->dtype;
  std::vector<OutputSpec> out = {{queries, made, in[0]->shape}};
  const auto add = [&](AttentionGrad::In slot, const char* name, DType type) {
    const int operand = input_index(a, slot);
    if (operand != kNone) out.push_back({name, type, in[operand]->shape});
  };
  add(AttentionGrad::kKv, ".kv.gradient", made);
  add(AttentionGrad::kBias, ".bias.gradient", a.accum_dtype);
  return out;
}

std::vector<OutputSpec> infer_cached(const Op& op, const Inputs& in) {
  const CachedAttention& a = op.as<CachedAttention>();
  CHECK(in.size() == input_count(a) && in[0]->shape.rank() == 5,
        "cached_attention expects qkv, positions and the operands of its attributes");
  const Shape& s = in[0]->shape;
  const Shape made = out_shape(a, s);
  check_optional(a, a.bias_distance, in, made);
  return {{"", in[0]->dtype, made}, {".cache", in[0]->dtype, {s[0], a.context, 2, s[2], s[4]}}};
}

// Returns the labels that can be split. Causal queries with separate keys may be split: each rank
// then has all keys.
const char* split_labels(const Attention& a) {
  return a.separate_kv && !a.non_causal ? "btk" : "bk";
}

// The labels of keys and values. kAllKeys: each rank has the keys of the whole sequence. In a ring
// a rank has its own share (`t`), divided like its queries.
constexpr const char* kAllKeys = "bskpd";
const char* key_labels(const Attention& a) { return a.ring > 0 ? "btkpd" : kAllKeys; }

// Adds the labels of optional operands. A is one of the three ops. A bias has one row per head,
// labeled as a group: it requires one query head per group.
template <class A>
void add_labels(const A& a, bool separate_kv, ShardingRule& r, const char* keys = kAllKeys) {
  A::inputs(a, [&](typename A::In slot, bool has) {
    if (!has) return;
    if (slot == A::kKv) r.inputs.emplace_back(keys);
    if (slot == A::kBias) r.inputs.emplace_back("kn");
    if constexpr (requires { A::kSinks; })
      if (slot == A::kSinks) r.inputs.emplace_back("k");
    if constexpr (requires { A::kMask; }) {
      if (slot == A::kMask) r.inputs.emplace_back(separate_kv ? "bs" : "bt");
      if (slot == A::kSamples) r.inputs.emplace_back("b");
      if (slot == A::kStep) r.inputs.emplace_back("e");
    }
    if constexpr (requires { A::kPartLse; }) {
      if (slot == A::kPartOut) r.inputs.emplace_back("btkv");
      if (slot == A::kPartLse) r.inputs.emplace_back("bkt");
    }
    if constexpr (requires { A::kPartDQkv; })
      if (slot == A::kPartDQkv) r.inputs.emplace_back("btkgd");
  });
}

ShardingRule sharding(const Op& op, ValueSpan) {
  const Attention& a = op.as<Attention>();
  ShardingRule r{{"btkgd"}, {"btkv", "bkt"}, split_labels(a), {}, false, false, "k"};
  add_labels(a, a.separate_kv, r, key_labels(a));
  return r;
}
// Linear in d_out (input 3) only: it is multiplied by the other inputs.
ShardingRule sharding_grad(const Op& op, ValueSpan) {
  const AttentionGrad& a = op.as<AttentionGrad>();
  ShardingRule r{
      {"btkgd", "btkv", "bkt", "btkv"}, {"btkgd"}, split_labels(a.of), {{3}}, false, false, "k"};
  add_labels(a, a.of.separate_kv, r, key_labels(a.of));
  if (output_index(a, AttentionGrad::kDKv) != kNone) r.outputs.emplace_back(key_labels(a.of));
  if (output_index(a, AttentionGrad::kDBias) != kNone) r.outputs.emplace_back("kn");
  return r;
}
ShardingRule sharding_sinks_grad(const Op& op, ValueSpan) {
  const char* const out = op.as<AttentionSinksGrad>().by_head ? "bktd" : "btkd";
  return {{"k", out, "bkt", out}, {"k"}, "btkd", {{1}, {3}}};
}
ShardingRule sharding_cached(const Op& op, ValueSpan) {
  ShardingRule r{{"btkgd", "bt"}, {"btkv", "bcpkd"}, "bk", {}, false, false, "k"};
  const CachedAttention& a = op.as<CachedAttention>();
  add_labels(a, a.separate_kv, r);
  return r;
}

void gradient(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  // The backward regenerates probabilities from lse, so it reads out and lse instead of them.
  std::vector<ValueId> in = {op.inputs[0], op.outputs[0], op.outputs[1], dy};
  const ValueId kv = input(op, Attention::kKv), bias = input(op, Attention::kBias);
  const ValueId sinks = input(op, Attention::kSinks);
  std::copy_if(op.inputs.begin() + 1, op.inputs.end(), std::back_inserter(in),
               [&](ValueId v) { return sinks == kNone || v != sinks; });
  std::vector<ValueId> out(kv == kNone ? 1 : 2, kNone);
  if (bias != kNone) out.push_back(g.weight(bias));
  Attention of = op.as<Attention>();
  of.sinks = false;
  out = g.builder().emit(AttentionGrad{of}, op.origin, in, out);
  g.add(op.inputs[0], out[0]);
  if (kv != kNone) g.add(kv, out[1]);
  if (sinks == kNone) return;
  // Sinks are a weight, or this rank's heads of it.
  in = {sinks, op.outputs[0], op.outputs[1], dy};
  if (g[sinks].role == Role::kWeight)
    g.builder().emit(AttentionSinksGrad{}, op.origin, in, {g.weight(sinks)});
  else
    g.add(sinks, g.builder().emit_one(AttentionSinksGrad{}, op.origin, in));
}

// Per visible pair of query and key, `by_keys` GEMMs do 2 D operations each, `by_values` 2 V each.
Cost cost_of_pairs(const Op& op, ValueSpan values, int64_t value_width, double pairs,
                   int64_t by_keys, int64_t by_values) {
  const Value& queries = values[op.inputs[0]];
  Cost c = sweep_cost(op, values);
  c.work = Work::kAttention;
  const int64_t d = queries.shape[4], v = value_width > 0 ? value_width : d;
  c.attention = {pairs, by_keys * d + by_values * v, queries.dtype};
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

// Returns the maximum number of pairs of a rank that has the chunks r and 2C - 1 - r of s tokens, t
// in all.
double zigzag_causal_pairs(int64_t t, int64_t s, int64_t window) {
  const int64_t chunk = t / 2, chunks = s / chunk;
  const auto of_chunk = [&](int64_t k) {
    return last_causal_pairs(chunk, (k + 1) * chunk, window);
  };
  double most = 0;
  for (int64_t k = 0; k < chunks / 2; ++k)
    most = std::max(most, of_chunk(k) + of_chunk(chunks - 1 - k));
  return most;
}

// Returns the pairs of the rank that has the most, with t of the s tokens of a sequence.
double most_causal_pairs(const Value& queries, int64_t s, int64_t window) {
  const int64_t t = queries.shape[1];
  if (queries.sharding.cut == ContextCut::kZigzag) return zigzag_causal_pairs(t, s, window);
  return last_causal_pairs(t, s, window);
}

// Returns the number of keys of the whole sequence; a rank of a ring has one block of them.
int64_t keys_of(const Value& keys, const Attention& a) {
  return keys.shape[1] * std::max<int64_t>(a.ring, 1);
}
// Returns the number of visits over which the pairs are divided, so pairs / visits is the mean per
// op.
double visits_of(const Attention& a) { return a.visit > 0 ? static_cast<double>(a.ring) : 1.0; }

// Returns the visible pairs of query and key. `kv` has the keys if they are an operand of their
// own.
double visited_pairs(const Op& op, ValueSpan values, const Attention& a, ValueId kv) {
  const Shape &q = values[op.inputs[0]].shape, out = out_shape(a, q);
  const int64_t t = out[1], s = keys_of(values[kv == kNone ? op.inputs[0] : kv], a);
  const auto heads = static_cast<double>(out[0] * out[2]);
  if (!a.non_causal)
    return heads * most_causal_pairs(values[op.inputs[0]], s, a.window) / visits_of(a);
  return heads * static_cast<double>(t) * static_cast<double>(s);
}

// Scales the FLOPs of the visited pairs: the model counts the mean over the ranks that divide the
// queries, and `square` includes the pairs that the mask omits.
void count_pairs(Flops& flops, const Op& op, ValueSpan values, const Attention& a, ValueId kv) {
  flops.square = flops.model;
  if (a.non_causal) return;
  const int64_t t = values[op.inputs[0]].shape[1];
  const int64_t s = keys_of(values[kv == kNone ? op.inputs[0] : kv], a);
  const auto queries = static_cast<double>(t), keys = static_cast<double>(s);
  const double most = most_causal_pairs(values[op.inputs[0]], s, a.window);
  flops.square *= queries * keys / most;
  flops.model *= causal_pairs(keys, a.window) * queries / keys / most;
}

Cost cost(const Op& op, ValueSpan values) {
  const ValueId kv = input(op, Attention::kKv);
  const Attention& a = op.as<Attention>();
  Cost c = cost_of_pairs(op, values, a.value_width, visited_pairs(op, values, a, kv), 1, 1);
  count_pairs(c.flops, op, values, a, kv);
  return c;
}

// Five GEMMs: scores, dq and dk with keys' widths, dv and dp with values'. The scores are
// recomputed, so the model counts four.
Cost cost_grad(const Op& op, ValueSpan values) {
  const ValueId kv = input(op, AttentionGrad::kKv);
  const Attention& a = op.as<AttentionGrad>().of;
  Cost c = cost_of_pairs(op, values, a.value_width, visited_pairs(op, values, a, kv), 3, 2);
  const auto d = static_cast<double>(values[op.inputs[0]].shape[4]);
  c.flops.model = c.flops.hardware * (1 - d / static_cast<double>(c.attention.widths));
  count_pairs(c.flops, op, values, a, kv);
  return c;
}

// Every position of the cache is visited, or those of the window.
Cost cost_cached(const Op& op, ValueSpan values) {
  const Shape &out = values[op.outputs[0]].shape, &cache = values[op.outputs[1]].shape;
  const int64_t window = op.as<CachedAttention>().window;
  const int64_t keys = window > 0 ? std::min(window + out[1] - 1, cache[1]) : cache[1];
  const auto queries = static_cast<double>(out.product(0, 3));
  return cost_of_pairs(op, values, op.as<CachedAttention>().value_width,
                       queries * static_cast<double>(keys), 1, 1);
}

// A visit may continue the output of the visits before it in its place, and their gradient.
InPlace in_place(const Op& op) { return {input_index(op.as<Attention>(), Attention::kPartOut), 0}; }
InPlace in_place_grad(const Op& op) {
  return {input_index(op.as<AttentionGrad>(), AttentionGrad::kPartDQkv), 0};
}

}  // namespace

Cost cost_of_scores(const Op& op, ValueSpan values, const Attention& a, ValueId kv) {
  return cost_of_pairs(op, values, 0, visited_pairs(op, values, a, kv), 1, 0);
}

const OpRule Attention::rule = {.infer = infer,
                                .sharding = sharding,
                                .gradient = gradient,
                                .cost = cost,
                                .in_place = in_place,
                                .repeat = Repeat::kAttention,
                                .prepared = Prepared::kAttention,
                                .time = TimeGroup::kAttention};
const OpRule AttentionGrad::rule = {.infer = infer_grad,
                                    .sharding = sharding_grad,
                                    .cost = cost_grad,
                                    .in_place = in_place_grad,
                                    .prepared = Prepared::kAttention,
                                    .time = TimeGroup::kAttention};
const OpRule AttentionSinksGrad::rule = {
    .infer = infer_sinks_grad, .sharding = sharding_sinks_grad, .time = TimeGroup::kAttention};
const OpRule CachedAttention::rule = {.infer = infer_cached,
                                      .sharding = sharding_cached,
                                      .cost = cost_cached,
                                      .time = TimeGroup::kAttention};

}  // namespace tessera
