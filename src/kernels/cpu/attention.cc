#include "kernels/attention.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/attention_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_simd.h"
#include "kernels/cpu/packed_heads.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(PackKeyHead);
HWY_EXPORT(AttendQueries);
HWY_EXPORT(PackKeyHeadForGrad);
HWY_EXPORT(AttendQueriesGrad);
HWY_EXPORT(StoreKeyGrads);

namespace {

// Takes buffers one after another from a workspace; without one, only counts.
struct Carver {
  float* base;
  int64_t used = 0;
  float* take(int64_t floats) {
    float* const p = base == nullptr ? nullptr : base + used;
    used += round_up(floats, kPad);
    return p;
  }
};

HeadBuffers carve(Carver& c, int64_t t, int64_t d, bool grad) {
  const int64_t width = round_up(d, kPad), all = round_up(t, kTile) * width, tile = kTile * width;
  HeadBuffers b{};
  b.k_transposed = c.take(all);
  b.k = c.take(grad ? all : tile);
  b.q = c.take(grad ? all : tile);
  b.dq = c.take(grad ? all : tile);
  b.scores = c.take(kTile * kTile);
  b.mask = c.take(kTile * kTile);
  if (grad) {
    b.v_transposed = c.take(all);
    b.d_out = c.take(all);
    b.dk = c.take(all);
    b.dv = c.take(all);
    b.d_scores = c.take(kTile * kTile);
    b.delta = c.take(round_up(t, kTile));
  } else {
    b.v = c.take(all);
    b.row_max = c.take(kTile);
    b.row_sum = c.take(kTile * kPad);
  }
  return b;
}

int64_t thread_floats(int64_t t, int64_t d, bool grad) {
  Carver count{nullptr};
  carve(count, t, d, grad);
  return count.used;
}

HeadBuffers buffers_of(void* workspace, int thread, const PackedHeads& p, bool grad) {
  const int64_t floats = thread_floats(p.t, p.d, grad);
  Carver c{static_cast<float*>(workspace) + thread * floats};
  return carve(c, p.t, p.d, grad);
}

HeadDropout head_dropout(const AttentionDropout& a, const PackedHeads& p, int64_t sample,
                         int64_t head) {
  if (a.dropout.probability <= 0) return {};
  const int64_t row = round_up(p.t, 4);
  return {.threshold = dropout_threshold(a.dropout.probability),
          .key = a.dropout.key,
          .sample = static_cast<uint64_t>(a.samples.as<int64_t>()[sample]),
          .first_element = (a.first_head + head) * p.t * row,
          .row_elements = row,
          .scale = 1.0f / (1.0f - a.dropout.probability)};
}

void check(const PackedHeads& p, const TensorView& out, const TensorView& lse,
           const AttentionDropout& drop) {
  CHECK(out.elements() == p.b * p.t * p.heads() * p.d, "attention of {} heads of {} into {}",
        p.heads(), p.d, to_string(out.shape));
  CHECK(!lse || lse.elements() == p.b * p.heads() * p.t, "attention: log-sum-exp {}",
        to_string(lse.shape));
  CHECK(drop.dropout.probability <= 0 ||
            (drop.samples.dtype == DType::kI64 && drop.samples.elements() == p.b),
        "attention's dropout needs the numbers of {} samples", p.b);
}

}  // namespace

int64_t attention_workspace_bytes(int64_t t, int64_t d, int threads) {
  return threads * thread_floats(t, d, false) * static_cast<int64_t>(sizeof(float));
}

int64_t attention_grad_workspace_bytes(int64_t t, int64_t d, int threads) {
  return threads * thread_floats(t, d, true) * static_cast<int64_t>(sizeof(float));
}

void attention(const Attention& a, void* workspace) {
  const PackedHeads p(a.qkv);
  check(p, a.out, a.lse, a.dropout);
  const auto pack = &HWY_DYNAMIC_DISPATCH(PackKeyHead);
  const auto attend = &HWY_DYNAMIC_DISPATCH(AttendQueries);
  parallel_tasks(p.b * p.kv, a.threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv;
    const HeadBuffers buffers = buffers_of(workspace, thread, p, false);
    const KeyHead keys{.t = p.t,
                       .d = p.d,
                       .scale = a.scale,
                       .k = p.key(a.qkv, b, kv),
                       .v = p.value(a.qkv, b, kv),
                       .dk = {},
                       .dv = {}};
    pack(keys, buffers);
    for (int64_t g = 0; g < p.g; ++g) {
      const int64_t head = kv * p.g + g;
      QueryHead h;
      h.q = p.query(a.qkv, b, kv, g);
      h.out = p.out(a.out, b, head);
      h.lse = a.lse ? a.lse.f32() + (b * p.heads() + head) * p.t : nullptr;
      h.dropout = head_dropout(a.dropout, p, b, head);
      attend(keys, h, buffers);
    }
  });
}

void attention_grad(const AttentionGrad& a, void* workspace) {
  const PackedHeads p(a.qkv);
  check(p, a.out, a.lse, a.dropout);
  CHECK(a.d_out.elements() == a.out.elements() && a.d_qkv.elements() == a.qkv.elements(),
        "attention_grad: out {}, d_out {}, qkv {}, d_qkv {}", to_string(a.out.shape),
        to_string(a.d_out.shape), to_string(a.qkv.shape), to_string(a.d_qkv.shape));
  const auto pack = &HWY_DYNAMIC_DISPATCH(PackKeyHeadForGrad);
  const auto attend = &HWY_DYNAMIC_DISPATCH(AttendQueriesGrad);
  const auto store = &HWY_DYNAMIC_DISPATCH(StoreKeyGrads);
  parallel_tasks(p.b * p.kv, a.threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv;
    const HeadBuffers buffers = buffers_of(workspace, thread, p, true);
    const KeyHead keys{.t = p.t,
                       .d = p.d,
                       .scale = a.scale,
                       .k = p.key(a.qkv, b, kv),
                       .v = p.value(a.qkv, b, kv),
                       .dk = p.key(a.d_qkv, b, kv),
                       .dv = p.value(a.d_qkv, b, kv)};
    pack(keys, buffers);
    for (int64_t g = 0; g < p.g; ++g) {
      const int64_t head = kv * p.g + g;
      QueryHead h;
      h.q = p.query(a.qkv, b, kv, g);
      h.out = p.out(a.out, b, head);
      h.lse = a.lse.f32() + (b * p.heads() + head) * p.t;
      h.d_out = p.out(a.d_out, b, head);
      h.dq = p.query(a.d_qkv, b, kv, g);
      h.dropout = head_dropout(a.dropout, p, b, head);
      attend(keys, h, buffers);
    }
    store(keys, buffers);
  });
}

}  // namespace tessera::kernels
