// Rules of unfused attention, three ops. Both gradients are parts of d_qkv: attention_mix_grad
// writes the v slice (and dp) and zeros elsewhere; attention_scores_grad adds the q and k slices.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/operands.h"
#include "ir/ops/attention.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

//   scores = scale q k^T          [B, H, T, T], minus infinity above the diagonal
//   p      = softmax(scores)      dropout, if any, applies to p
//   out    = p v                  [B, T, H, V]
// backward: dp = d_out v^T, dv = p^T d_out;  ds = p (dp - sum(p dp));
//           dq = scale ds k, dk = scale ds^T q
int64_t heads(const Shape& qkv) { return qkv[2] * (qkv[3] - 2); }
// One number for each pair of tokens of a sequence.
Shape pairs(const Shape& qkv) { return {qkv[0], heads(qkv), qkv[1], qkv[1]}; }
int64_t width_of(const AttentionMix& a, const Shape& qkv) {
  return a.value_width > 0 ? a.value_width : qkv[4];
}
Shape mixed(const AttentionMix& a, const Shape& qkv) {
  return {qkv[0], qkv[1], heads(qkv), width_of(a, qkv)};
}

std::vector<OutputSpec> infer_scores(const Op& op, const Inputs& in) {
  CHECK(in.size() == 1 && in[0]->shape.rank() == 5, "attention_scores expects packed qkv");
  const Shape& s = in[0]->shape;
  const DType type = op.as<AttentionScores>().half ? in[0]->dtype : DType::kF32;
  return {{".scores", type, pairs(s)}};
}
std::vector<OutputSpec> infer_scores_grad(const Op&, const Inputs& in) {
  CHECK(in.size() == 3 && in[0]->shape == in[2]->shape && in[0]->shape.rank() == 5 &&
            in[1]->shape == pairs(in[0]->shape),
        "attention_scores_grad expects qkv, d_scores and the gradient of qkv so far");
  return {{".gradient", in[0]->dtype, in[0]->shape}};
}
std::vector<OutputSpec> infer_softmax(const Op& op, const Inputs& in) {
  const Softmax& a = op.as<Softmax>();
  CHECK(in.size() == input_count(a), "softmax of {} inputs", in.size());
  const Shape& s = in[0]->shape;
  std::vector<OutputSpec> out = {{".probabilities", in[0]->dtype, s}};
  if (!a.sinks) return out;
  CHECK(s.rank() == 4 && in[1]->shape == Shape{s[1]}, "softmax of {} with sinks {}", to_string(s),
        to_string(in[1]->shape));
  out.push_back({".lse", DType::kF32, {s[0], s[1], s[2]}});
  return out;
}
std::vector<OutputSpec> infer_softmax_grad(const Op&, const Inputs& in) {
  CHECK(in.size() == 2, "softmax_grad expects p and dp");
  return {{".gradient", in[0]->dtype, in[0]->shape}};
}
std::vector<OutputSpec> infer_mix(const Op& op, const Inputs& in) {
  CHECK(in.size() == 2 && in[1]->shape.rank() == 5 && in[0]->shape == pairs(in[1]->shape),
        "attention_mix expects p and qkv");
  return {{"", in[1]->dtype, mixed(op.as<AttentionMix>(), in[1]->shape)}};
}
std::vector<OutputSpec> infer_mix_grad(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3 && in[1]->shape.rank() == 5 && in[0]->shape == pairs(in[1]->shape) &&
            in[2]->shape == mixed(op.as<AttentionMixGrad>().of, in[1]->shape),
        "attention_mix_grad expects p, qkv and d_out");
  return {{".gradient", in[0]->dtype, in[0]->shape}, {".qkv.gradient", in[1]->dtype, in[1]->shape}};
}

ShardingRule sharding_scores(const Op&, ValueSpan) {
  return {{"btkgd"}, {"bkts"}, "bk", {}, false, false, "k"};
}
ShardingRule sharding_scores_grad(const Op& op, ValueSpan) {
  ShardingRule r{{"btkgd", "bkts", "btkgd"}, {"btkgd"}, "bk", {{1, 2}}, false, false, "k"};
  if (op.as<AttentionScoresGrad>().of.soft_cap == 0) r.linear.push_back({0, 2});
  return r;
}
ShardingRule sharding_softmax(const Op& op, ValueSpan) {
  if (op.as<Softmax>().sinks) return {{"bkts", "k"}, {"bkts", "bkt"}, "bkt", {}};
  return {{"bkts"}, {"bkts"}, "bkt", {}};
}
ShardingRule sharding_softmax_grad(const Op&, ValueSpan) {
  return {{"bkts", "bkts"}, {"bkts"}, "bkt", {{1}}};
}
ShardingRule sharding_mix(const Op&, ValueSpan) {
  return {{"bkts", "bskgd"}, {"btkv"}, "bk", {{0}, {1}}, false, false, "k"};
}
ShardingRule sharding_mix_grad(const Op&, ValueSpan) {
  return {{"bkts", "bskgd", "btkv"}, {"bkts", "bskgd"}, "bk", {{2}, {0, 1}}, false, false, "k"};
}

void gradient_scores(Gradients& g, const Op& op) {
  const ValueId ds = g.of(op.outputs[0]), qkv = op.inputs[0];
  if (ds == kNone) return;
  // The gradient so far is that of v, from attention_mix; it is removed and passed to the op, so
  // that one buffer receives all three slices.
  const ValueId sofar = g.take(qkv);
  CHECK(sofar != kNone, "attention_mix comes after attention_scores");
  const AttentionScoresGrad a = {op.as<AttentionScores>()};
  g.add(qkv, g.builder().emit_one(a, op.origin, {qkv, ds, sofar}));
}
void gradient_softmax(Gradients& g, const Op& op) {
  const ValueId dp = g.of(op.outputs[0]);
  if (dp == kNone) return;
  g.add(op.inputs[0], g.builder().emit_one(SoftmaxGrad{}, op.origin, {op.outputs[0], dp}));
  if (!op.as<Softmax>().sinks) return;
  // The sum of p dp over the keys is that of out d_out over the elements of a head.
  const ValueId sinks = input(op, Softmax::kSinks), lse = output(op, Softmax::kLse);
  g.builder().emit(AttentionSinksGrad{.by_head = true}, op.origin, {sinks, op.outputs[0], lse, dp},
                   {g.weight(sinks)});
}
void gradient_mix(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]);
  if (dy == kNone) return;
  const auto out = g.builder().emit(AttentionMixGrad{op.as<AttentionMix>()}, op.origin,
                                    {op.inputs[0], op.inputs[1], dy});
  g.add(op.inputs[0], out[0]);
  g.add(op.inputs[1], out[1]);
}

// GEMMs over all pairs of positions: `wide` produces [T, T], `deep` reads it.
struct PairProducts {
  GemmShape wide, deep;
};
PairProducts pair_products(const Value& qkv, int64_t D) {
  const Shape& s = qkv.shape;
  const int64_t batch = s[0] * heads(s), T = s[1];
  return {{batch, T, T, D, qkv.dtype, GemmKind::kForward},
          {batch, T, D, T, qkv.dtype, GemmKind::kInputGradient}};
}

// All pairs are computed; the model counts those that the mask leaves visible.
Cost scores_cost(const Op& op, ValueSpan values, const Value& qkv,
                 std::vector<GemmShape> products) {
  Cost c = product_cost(op, values, Work::kScores, std::move(products));
  const auto t = static_cast<double>(qkv.shape[1]);
  c.flops.model = c.flops.hardware * (t + 1) / (2 * t);
  return c;
}

Cost cost_scores(const Op& op, ValueSpan values) {
  const Value& qkv = values[op.inputs[0]];
  return scores_cost(op, values, qkv, {pair_products(qkv, qkv.shape[4]).wide});
}
Cost cost_scores_grad(const Op& op, ValueSpan values) {
  const Value& qkv = values[op.inputs[0]];
  const PairProducts p = pair_products(qkv, qkv.shape[4]);
  std::vector<GemmShape> products = {p.deep, p.deep};
  if (op.as<AttentionScoresGrad>().of.soft_cap > 0) products.insert(products.begin(), p.wide);
  return scores_cost(op, values, qkv, std::move(products));
}
Cost cost_mix(const Op& op, ValueSpan values) {
  const Value& qkv = values[op.inputs[1]];
  return scores_cost(op, values, qkv,
                     {pair_products(qkv, width_of(op.as<AttentionMix>(), qkv.shape)).deep});
}
Cost cost_mix_grad(const Op& op, ValueSpan values) {
  const Value& qkv = values[op.inputs[1]];
  const PairProducts p = pair_products(qkv, width_of(op.as<AttentionMixGrad>().of, qkv.shape));
  return scores_cost(op, values, qkv, {p.wide, p.deep});
}

}  // namespace

const OpRule AttentionScores::rule = {.infer = infer_scores,
                                      .sharding = sharding_scores,
                                      .gradient = gradient_scores,
                                      .cost = cost_scores,
                                      .repeat = Repeat::kAttention,
                                      .time = TimeGroup::kAttention,
                                      .effects = {.may_be_infinite = true}};
const OpRule AttentionScoresGrad::rule = {.infer = infer_scores_grad,
                                          .sharding = sharding_scores_grad,
                                          .cost = cost_scores_grad,
                                          .in_place = over_last,
                                          .time = TimeGroup::kAttention};
const OpRule Softmax::rule = {.infer = infer_softmax,
                              .sharding = sharding_softmax,
                              .gradient = gradient_softmax,
                              .in_place = over_first,
                              .repeat = Repeat::kAttention,
                              .time = TimeGroup::kAttention};
const OpRule SoftmaxGrad::rule = {.infer = infer_softmax_grad,
                                  .sharding = sharding_softmax_grad,
                                  .in_place = over_last,
                                  .time = TimeGroup::kAttention};
const OpRule AttentionMix::rule = {.infer = infer_mix,
                                   .sharding = sharding_mix,
                                   .gradient = gradient_mix,
                                   .cost = cost_mix,
                                   .repeat = Repeat::kCheap,
                                   .time = TimeGroup::kAttention};
const OpRule AttentionMixGrad::rule = {.infer = infer_mix_grad,
                                       .sharding = sharding_mix_grad,
                                       .cost = cost_mix_grad,
                                       .time = TimeGroup::kAttention,
                                       .effects = {.writes_part = true}};

}  // namespace tessera
