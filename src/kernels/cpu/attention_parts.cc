// Unfused causal attention on the CPU: scores, softmax, mix and their gradients as separate
// kernels, with the T x T matrices in memory. All but the softmax run one task per key head and
// sample, as the fused kernels do; gradients of keys and values are sums over the query heads of a
// group, which one thread adds in order.
#include "kernels/attention_parts.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/attention_parts_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_parts_simd.h"
#include "kernels/cpu/packed_heads.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(ScoresOfHead);
HWY_EXPORT(ScoresGradOfHead);
HWY_EXPORT(MixOfHead);
HWY_EXPORT(MixGradOfHead);
HWY_EXPORT(ZeroKeyGrads);
HWY_EXPORT(StoreKeyGrad);
HWY_EXPORT(SoftmaxRows);
HWY_EXPORT(SoftmaxGradRows);

namespace {

// The matrix of one head of one sample.
Rows square(const TensorView& v, const PackedHeads& p, int64_t b, int64_t head) {
  CHECK(v.elements() == p.b * p.heads() * p.t * p.t, "scores of {} for {} heads of {} tokens",
        to_string(v.shape), p.heads(), p.t);
  return {Sink(v) + (b * p.heads() + head) * p.t * p.t, p.t};
}

// Calls f(keys, sample, group, buffers) for every key head.
template <class F>
void for_key_heads(const PackedHeads& p, const TensorView& qkv, float scale, const Launch& l,
                   const F& f) {
  parallel_tasks(p.b * p.kv, l.threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv;
    f(p.keys(qkv, b, kv, scale), b, kv,
      head_buffers(l.workspace, thread, p.t, p.t, p.d, HeadUse::kGradient));
  });
}

int64_t parts_bytes(const TensorView& qkv, int threads) {
  return threads * head_buffers_bytes(qkv.shape[1], qkv.shape[1], qkv.shape[4], HeadUse::kGradient);
}

}  // namespace

int64_t workspace_bytes(Cpu, const AttentionScoresArgs& a, int threads) {
  return parts_bytes(a.qkv, threads);
}
int64_t workspace_bytes(Cpu, const AttentionScoresGradArgs& a, int threads) {
  return parts_bytes(a.qkv, threads);
}
int64_t workspace_bytes(Cpu, const AttentionMixArgs& a, int threads) {
  return parts_bytes(a.qkv, threads);
}
int64_t workspace_bytes(Cpu, const AttentionMixGradArgs& a, int threads) {
  return parts_bytes(a.qkv, threads);
}

void launch(Cpu, const Launch& l, const AttentionScoresArgs& a) {
  const PackedHeads p(a.qkv);
  const auto run = &HWY_DYNAMIC_DISPATCH(ScoresOfHead);
  for_key_heads(p, a.qkv, a.scale, l,
                [&](KeyHead keys, int64_t b, int64_t kv, const HeadBuffers& buffers) {
                  keys.window = a.window;
                  keys.soft_cap = a.soft_cap;
                  for (int64_t g = 0; g < p.g; ++g) {
                    QueryHead h;
                    h.q = p.query(a.qkv, b, kv, g);
                    run(keys, h, square(a.scores, p, b, kv * p.g + g), buffers);
                  }
                });
}

void launch(Cpu, const Launch& l, const AttentionScoresGradArgs& a) {
  const PackedHeads p(a.qkv);
  const auto zero = &HWY_DYNAMIC_DISPATCH(ZeroKeyGrads);
  const auto run = &HWY_DYNAMIC_DISPATCH(ScoresGradOfHead);
  const auto store = &HWY_DYNAMIC_DISPATCH(StoreKeyGrad);
  for_key_heads(p, a.qkv, a.scale, l,
                [&](KeyHead keys, int64_t b, int64_t kv, const HeadBuffers& buffers) {
                  keys.soft_cap = a.soft_cap;
                  zero(keys, buffers.dk);
                  for (int64_t g = 0; g < p.g; ++g) {
                    QueryHead h;
                    h.q = p.query(a.qkv, b, kv, g);
                    h.dq = p.query(a.d_qkv, b, kv, g);
                    run(keys, h, square(a.d_scores, p, b, kv * p.g + g), buffers);
                  }
                  store(keys, buffers.dk, p.key(a.d_qkv, b, kv));
                });
}

void launch(Cpu, const Launch& l, const SoftmaxArgs& a) {
  const TensorView &x = a.x, &y = a.y;
  CHECK(x.elements() == y.elements(), "softmax of {} into {}", to_string(x.shape),
        to_string(y.shape));
  const Source from(x);
  const Sink to(y);
  const int64_t d = columns_of(x);
  SoftmaxSinks sinks;
  if (a.sinks) {
    CHECK(x.shape.rank() == 4 && a.sinks.elements() == x.shape[1] && a.lse.elements() == rows_of(x),
          "softmax of {} with sinks {}", to_string(x.shape), to_string(a.sinks.shape));
    sinks = {a.sinks, a.lse.f32(), x.shape[2], x.shape[1]};
  }
  const auto run = &HWY_DYNAMIC_DISPATCH(SoftmaxRows);
  parallel_rows(rows_of(x), d, l.threads,
                [&](int64_t begin, int64_t end) { run(from, to, sinks, d, begin, end); });
}

void launch(Cpu, const Launch& l, const SoftmaxGradArgs& a) {
  const TensorView &y = a.y, &dy = a.dy, &dx = a.dx;
  CHECK(y.elements() == dy.elements() && y.elements() == dx.elements(),
        "softmax_grad of {} and {} into {}", to_string(y.shape), to_string(dy.shape),
        to_string(dx.shape));
  const Source of(y), from(dy);
  const Sink to(dx);
  const int64_t d = columns_of(y);
  const auto run = &HWY_DYNAMIC_DISPATCH(SoftmaxGradRows);
  parallel_rows(rows_of(y), d, l.threads,
                [&](int64_t begin, int64_t end) { run(of, from, to, d, begin, end); });
}

void launch(Cpu, const Launch& l, const AttentionMixArgs& a) {
  const PackedHeads p(a.qkv);
  check_attention(p, a.out, {}, {});
  const auto run = &HWY_DYNAMIC_DISPATCH(MixOfHead);
  for_key_heads(p, a.qkv, 1.0f, l,
                [&](const KeyHead& keys, int64_t b, int64_t kv, const HeadBuffers& buffers) {
                  for (int64_t head = kv * p.g; head < (kv + 1) * p.g; ++head) {
                    QueryHead h;
                    h.out = p.out(a.out, b, head);
                    run(keys, h, square(a.probabilities, p, b, head), buffers);
                  }
                });
}

void launch(Cpu, const Launch& l, const AttentionMixGradArgs& a) {
  const PackedHeads p(a.qkv);
  check_attention(p, a.d_out, {}, {});
  const auto zero = &HWY_DYNAMIC_DISPATCH(ZeroKeyGrads);
  const auto run = &HWY_DYNAMIC_DISPATCH(MixGradOfHead);
  const auto store = &HWY_DYNAMIC_DISPATCH(StoreKeyGrad);
  for_key_heads(p, a.qkv, 1.0f, l,
                [&](const KeyHead& keys, int64_t b, int64_t kv, const HeadBuffers& buffers) {
                  zero(keys, buffers.dv);
                  for (int64_t head = kv * p.g; head < (kv + 1) * p.g; ++head) {
                    QueryHead h;
                    h.d_out = p.out(a.d_out, b, head);
                    run(keys, h, square(a.probabilities, p, b, head),
                        square(a.d_probabilities, p, b, head), buffers);
                  }
                  store(keys, buffers.dv, p.value(a.d_qkv, b, kv));
                });
}

}  // namespace tessera::kernels
