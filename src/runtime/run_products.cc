// Matrix products and attention.
#include "kernels/attention.h"
#include "kernels/rotary.h"
#include "runtime/bound_op.h"

namespace tessera {
namespace {

// The operands that attention and its gradient, A, have in common.
template <class A, class Kernel>
void bind_attention(const BoundOp& b, const Attention& of, Kernel& k) {
  k.qkv = b.in[0];
  k.scale = static_cast<float>(of.scale);
  k.threads = b.threads;
  k.scope.causal = !of.whole;
  k.kv = operand(b, A::kKv);
  k.scope.bias = operand(b, A::kBias);
  k.scope.bias_distance = of.bias_distance;
  if (of.seen != Mask::kNothing)
    (of.seen == Mask::kDocuments ? k.scope.documents : k.scope.ids) = operand(b, A::kSeen);
  if (of.dropout == 0) return;
  const int64_t queries = b.in[0].shape[3] - (of.across ? 0 : 2);  // of a group
  k.dropout = {dropout_of(b, of.dropout, of.key, operand(b, A::kStep)), operand(b, A::kSamples),
               extents(b, b.op->inputs[0]).begin[2] * queries};
}

}  // namespace

void run_matmul(const BoundOp& b) {
  b.product->run(b.stream, b.in[0].data, b.packed != nullptr ? b.packed : b.in[1].data,
                 b.out[0].data, b.workspace);
}

void run_matmul_grad_weight(const BoundOp& b) {
  const Product& product = b.fresh[0] ? *b.fresh_product : *b.product;
  product.run(b.stream, b.in[0].data, b.in[1].data, b.out[0].data, b.workspace);
}

void run_pack(const BoundOp& b) { b.product->pack(b.in[0].data, b.out[0].data); }

void run_rotary(const BoundOp& b) {
  copy_unless_shared(b, b.in[0], b.out[0]);
  const Rotary& a = b.op->as<Rotary>();
  kernels::Rotary r{a.dims, a.base, a.inverse};
  if (a.scales()) r.scale = {a.factor, a.low, a.high, a.context};
  b.kernels->rotary(b.stream, b.out[0], b.in[1], r, b.workspace);
}

void run_attention(const BoundOp& b) {
  kernels::Attention a;
  bind_attention<Attention>(b, b.op->as<Attention>(), a);
  a.out = b.out[0];
  a.lse = b.out[1];
  if (b.attention != nullptr)
    b.attention->run(b.stream, a, b.workspace);
  else
    b.kernels->attention(b.stream, a, b.workspace);
}

void run_attention_grad(const BoundOp& b) {
  kernels::AttentionGrad a;
  bind_attention<AttentionGrad>(b, b.op->as<AttentionGrad>().of, a);
  a.out = b.in[1];
  a.lse = b.in[2];
  a.d_out = b.in[3];
  a.d_qkv = b.out[0];
  a.d_kv = operand(b, AttentionGrad::kDKv);
  if (const int bias = place_of(*b.op, AttentionGrad::kDBias); bias != kNone) {
    a.d_bias = b.out[static_cast<size_t>(bias)];
    a.fresh_bias = b.fresh[static_cast<size_t>(bias)];
  }
  if (b.attention != nullptr)
    b.attention->run(b.stream, a, b.workspace);
  else
    b.kernels->attention_grad(b.stream, a, b.workspace);
}

void run_cached_attention(const BoundOp& b) {
  kernels::CachedAttention a;
  a.qkv = b.in[0];
  a.out = b.out[0];
  a.cache = b.out[1];
  a.start = b.in[1].as<int32_t>();
  const CachedAttention& of = b.op->as<CachedAttention>();
  a.scale = static_cast<float>(of.scale);
  a.threads = b.threads;
  a.kv = operand(b, CachedAttention::kKv);
  a.bias = operand(b, CachedAttention::kBias);
  a.bias_distance = of.bias_distance;
  b.kernels->cached_attention(b.stream, a, b.workspace);
}

void run_attention_scores(const BoundOp& b) {
  const auto scale = static_cast<float>(b.op->as<AttentionScores>().scale);
  b.kernels->attention_scores(b.stream, b.in[0], scale, b.out[0], b.threads, b.workspace);
}

void run_attention_scores_grad(const BoundOp& b) {
  copy_unless_shared(b, b.in[2], b.out[0]);  // the v part, from attention_mix_grad
  const auto scale = static_cast<float>(b.op->as<AttentionScoresGrad>().of.scale);
  b.kernels->attention_scores_grad(b.stream, b.in[0], scale, b.in[1], b.out[0], b.threads,
                                   b.workspace);
}

void run_softmax(const BoundOp& b) { b.kernels->softmax(b.stream, b.in[0], b.out[0]); }

void run_softmax_grad(const BoundOp& b) {
  b.kernels->softmax_grad(b.stream, b.in[0], b.in[1], b.out[0]);
}

void run_attention_mix(const BoundOp& b) {
  b.kernels->attention_mix(b.stream, b.in[1], b.in[0], b.out[0], b.threads, b.workspace);
}

void run_attention_mix_grad(const BoundOp& b) {
  kernels::AttentionMixGrad a;
  a.probabilities = b.in[0];
  a.qkv = b.in[1];
  a.d_out = b.in[2];
  a.d_probabilities = b.out[0];
  a.d_qkv = b.out[1];
  a.threads = b.threads;
  b.kernels->attention_mix_grad(b.stream, a, b.workspace);
}

}  // namespace tessera
