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
void for_key_heads(const PackedHeads& p, const TensorView& qkv, float scale, int threads,
                   void* workspace, const F& f) {
  parallel_tasks(p.b * p.kv, threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv;
    f(p.keys(qkv, b, kv, scale), b, kv,
      head_buffers(workspace, thread, p.t, p.t, p.d, HeadUse::kGradient));
  });
}

}  // namespace

int64_t attention_parts_workspace_bytes(int64_t t, int64_t d, int threads) {
  return threads * head_buffers_bytes(t, t, d, HeadUse::kGradient);
}

void attention_scores(const TensorView& qkv, float scale, const TensorView& scores, int threads,
                      void* workspace) {
  const PackedHeads p(qkv);
  const auto run = &HWY_DYNAMIC_DISPATCH(ScoresOfHead);
  for_key_heads(p, qkv, scale, threads, workspace,
                [&](const KeyHead& keys, int64_t b, int64_t kv, const HeadBuffers& buffers) {
                  for (int64_t g = 0; g < p.g; ++g) {
                    QueryHead h;
                    h.q = p.query(qkv, b, kv, g);
                    run(keys, h, square(scores, p, b, kv * p.g + g), buffers);
                  }
                });
}

void attention_scores_grad(const TensorView& qkv, float scale, const TensorView& d_scores,
                           const TensorView& d_qkv, int threads, void* workspace) {
  const PackedHeads p(qkv);
  const auto zero = &HWY_DYNAMIC_DISPATCH(ZeroKeyGrads);
  const auto run = &HWY_DYNAMIC_DISPATCH(ScoresGradOfHead);
  const auto store = &HWY_DYNAMIC_DISPATCH(StoreKeyGrad);
  for_key_heads(p, qkv, scale, threads, workspace,
                [&](const KeyHead& keys, int64_t b, int64_t kv, const HeadBuffers& buffers) {
                  zero(keys, buffers.dk);
                  for (int64_t g = 0; g < p.g; ++g) {
                    QueryHead h;
                    h.q = p.query(qkv, b, kv, g);
                    h.dq = p.query(d_qkv, b, kv, g);
                    run(keys, h, square(d_scores, p, b, kv * p.g + g), buffers);
                  }
                  store(keys, buffers.dk, p.key(d_qkv, b, kv));
                });
}

void softmax(const TensorView& x, const TensorView& y) {
  CHECK(x.elements() == y.elements(), "softmax of {} into {}", to_string(x.shape),
        to_string(y.shape));
  const Source from(x);
  const Sink to(y);
  const int64_t d = columns_of(x);
  const auto run = &HWY_DYNAMIC_DISPATCH(SoftmaxRows);
  parallel_rows(rows_of(x), d, [&](int64_t begin, int64_t end) { run(from, to, d, begin, end); });
}

void softmax_grad(const TensorView& y, const TensorView& dy, const TensorView& dx) {
  CHECK(y.elements() == dy.elements() && y.elements() == dx.elements(),
        "softmax_grad of {} and {} into {}", to_string(y.shape), to_string(dy.shape),
        to_string(dx.shape));
  const Source of(y), from(dy);
  const Sink to(dx);
  const int64_t d = columns_of(y);
  const auto run = &HWY_DYNAMIC_DISPATCH(SoftmaxGradRows);
  parallel_rows(rows_of(y), d,
                [&](int64_t begin, int64_t end) { run(of, from, to, d, begin, end); });
}

void attention_mix(const TensorView& qkv, const TensorView& probabilities, const TensorView& out,
                   int threads, void* workspace) {
  const PackedHeads p(qkv);
  check_attention(p, out, {}, {});
  const auto run = &HWY_DYNAMIC_DISPATCH(MixOfHead);
  for_key_heads(p, qkv, 1.0f, threads, workspace,
                [&](const KeyHead& keys, int64_t b, int64_t kv, const HeadBuffers& buffers) {
                  for (int64_t head = kv * p.g; head < (kv + 1) * p.g; ++head) {
                    QueryHead h;
                    h.out = p.out(out, b, head);
                    run(keys, h, square(probabilities, p, b, head), buffers);
                  }
                });
}

void attention_mix_grad(const AttentionMixGrad& a, void* workspace) {
  const PackedHeads p(a.qkv);
  check_attention(p, a.d_out, {}, {});
  const auto zero = &HWY_DYNAMIC_DISPATCH(ZeroKeyGrads);
  const auto run = &HWY_DYNAMIC_DISPATCH(MixGradOfHead);
  const auto store = &HWY_DYNAMIC_DISPATCH(StoreKeyGrad);
  for_key_heads(p, a.qkv, 1.0f, a.threads, workspace,
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
