// Matrix products and attention.
#include "ir/attention_operands.h"
#include "kernels/attention.h"
#include "kernels/rotary.h"
#include "runtime/bound_op.h"

namespace tessera {
namespace {

float scale(const BoundOp& b) { return static_cast<float>(b.op->attributes.number("scale")); }

// The operands that attention and its gradient have in common.
template <class Kernel>
void bind_attention(const BoundOp& b, int first, Kernel& k) {
  const Attributes& a = b.op->attributes;
  const AttentionOperands at = attention_operands(a, first);
  const auto operand = [&](int i) { return b.in[static_cast<size_t>(i)]; };
  k.qkv = b.in[0];
  k.scale = scale(b);
  k.threads = b.threads;
  k.scope.causal = !a.has("whole");
  if (at.across != kNone) k.kv = operand(at.across);
  if (at.bias != kNone) k.scope.bias = operand(at.bias);
  k.scope.bias_distance = a.integer("bias_distance");
  if (at.seen != kNone)
    (a.text("seen") == "documents" ? k.scope.documents : k.scope.ids) = operand(at.seen);
  if (at.samples == kNone) return;
  const int64_t queries = b.in[0].shape[3] - (at.across == kNone ? 2 : 0);  // of a group
  k.dropout = {dropout_of(b, a.number("dropout"), operand(at.step)), operand(at.samples),
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
  const Attributes& a = b.op->attributes;
  kernels::Rotary r{a.integer("dims"), a.number("base"), a.integer("inverse") != 0};
  if (a.has("factor"))
    r.scale = {a.number("factor"), a.number("low"), a.number("high"), a.integer("context")};
  b.kernels->rotary(b.stream, b.out[0], b.in[1], r, b.workspace);
}

void run_attention(const BoundOp& b) {
  kernels::Attention a;
  bind_attention(b, 1, a);
  a.out = b.out[0];
  a.lse = b.out[1];
  if (b.attention != nullptr)
    b.attention->run(b.stream, a, b.workspace);
  else
    b.kernels->attention(b.stream, a, b.workspace);
}

void run_attention_grad(const BoundOp& b) {
  kernels::AttentionGrad a;
  bind_attention(b, 4, a);
  a.out = b.in[1];
  a.lse = b.in[2];
  a.d_out = b.in[3];
  a.d_qkv = b.out[0];
  size_t next = 1;
  if (a.kv) a.d_kv = b.out[next++];
  if (a.scope.bias) {
    a.d_bias = b.out[next];
    a.fresh_bias = b.fresh[next];
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
  a.scale = scale(b);
  a.threads = b.threads;
  const AttentionOperands at = attention_operands(b.op->attributes, 2);
  if (at.across != kNone) a.kv = b.in[static_cast<size_t>(at.across)];
  if (at.bias != kNone) a.bias = b.in[static_cast<size_t>(at.bias)];
  a.bias_distance = b.op->attributes.integer("bias_distance");
  b.kernels->cached_attention(b.stream, a, b.workspace);
}

void run_attention_scores(const BoundOp& b) {
  b.kernels->attention_scores(b.stream, b.in[0], scale(b), b.out[0], b.threads, b.workspace);
}

void run_attention_scores_grad(const BoundOp& b) {
  copy_unless_shared(b, b.in[2], b.out[0]);  // the v part, from attention_mix_grad
  b.kernels->attention_scores_grad(b.stream, b.in[0], scale(b), b.in[1], b.out[0], b.threads,
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
