// Tiled attention on the CPU (FlashAttention, Dao et al. 2022; Dao 2023): the driver of
// attention_simd.h, also for decoding with a cache, which does not pack the keys of a few queries
// (attention_rows_simd.h).
// One task is one key head of one sample. It packs the keys and values once, into the buffers of
// its thread, and then runs each of the G query heads that share them. Tasks write disjoint parts
// of the outputs, so the bits do not depend on the number of threads.
// Workspace:  [ HeadBuffers of thread 0 | … of thread T - 1 | memory of ScopeOfHeads ]
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/attention_rows_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_rows_simd.h"
#include "kernels/cpu/attention_scope.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(PackKeyHead);
HWY_EXPORT(AttendQueries);
HWY_EXPORT(AttendRows);
HWY_EXPORT(CopyRows);

namespace {

// Returns the sink of a head; -infinity if there are none.
float sink_of(const TensorView& sinks, const PackedHeads& p, int64_t head) {
  if (!sinks) return -HUGE_VALF;
  CHECK(sinks.elements() == p.heads(), "sinks {} of {} heads", to_string(sinks.shape), p.heads());
  return Source(sinks)[head];
}

int64_t forward_bytes(int64_t t, int64_t s, int64_t d, int threads) {
  return threads * head_buffers_bytes(t, s, d, HeadUse::kForward) + scope_bytes(t, s, 0);
}

}  // namespace

int64_t workspace_bytes(Cpu, const AttentionArgs& a, int threads) {
  return forward_bytes(a.qkv.shape[1], keys_of(a.qkv, a.kv), a.qkv.shape[4], threads);
}

void launch(Cpu, const Launch& l, const AttentionArgs& a) {
  const PackedHeads p(a.qkv, a.kv, a.out.shape[-1]);
  check_attention(p, a.out, a.lse, a.dropout);
  CHECK(!a.continues || (a.out.dtype == DType::kF32 && a.lse && !a.sinks),
        "attention continues in {}", name_of(a.out.dtype));
  const TensorView& keys_in = a.kv ? a.kv : a.qkv;
  const int64_t buffers_bytes = head_buffers_bytes(p.t, p.s, p.d, HeadUse::kForward);
  const ScopeOfHeads scope(a.scope, p, static_cast<char*>(l.workspace) + l.threads * buffers_bytes);
  const auto pack = &HWY_DYNAMIC_DISPATCH(PackKeyHead);
  const auto attend = &HWY_DYNAMIC_DISPATCH(AttendQueries);
  parallel_tasks(p.b * p.kv, l.threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv;
    const HeadBuffers buffers = head_buffers(l.workspace, thread, p.t, p.s, p.d, HeadUse::kForward);
    KeyHead keys = p.keys(keys_in, b, kv, a.scale);
    scope.bind_keys(b, buffers, keys);
    pack(keys, buffers);
    for (int64_t g = 0; g < p.g; ++g) {
      const int64_t head = kv * p.g + g;
      QueryHead h;
      h.q = p.query(a.qkv, b, kv, g);
      h.out = p.out(a.out, b, head);
      h.lse = a.lse ? a.lse.f32() + (b * p.heads() + head) * p.t : nullptr;
      h.sink = sink_of(a.sinks, p, head);
      h.continues = a.continues;
      h.dropout = head_dropout(a.dropout, p, b, head);
      scope.bind_query(head, buffers, false, h);
      attend(keys, h, buffers);
    }
  });
}

namespace {

// Returns a head's bias by distance (QueryHead::bias) if `start` keys precede the first query.
const float* cached_bias(const CachedAttentionArgs& a, const PackedHeads& p, int64_t head,
                         int64_t start, const HeadBuffers& b) {
  if (!a.bias) return nullptr;
  const RelativeBuckets r{a.bias.shape[1], a.bias_distance, true};
  const int64_t distances = start + 2 * p.t - 1;
  const Source bias(a.bias);
  for (int64_t x = 0; x < distances; ++x)
    b.bias[x] = bias[head * r.buckets + relative_bucket(r, x - (p.t - 1) - start)];
  std::fill(b.bias + distances, b.bias + round_up(p.t, kTile) + round_up(start + p.t, kTile), 0.0f);
  return b.bias;
}

}  // namespace

int64_t workspace_bytes(Cpu, const CachedAttentionArgs& a, int threads) {
  const int64_t capacity = a.cache.shape[1];
  return forward_bytes(capacity, capacity, a.qkv.shape[4], threads);
}

void launch(Cpu, const Launch& l, const CachedAttentionArgs& a) {
  const PackedHeads p(a.qkv, a.kv, a.out.shape[-1]);
  const TensorView& fresh = a.kv ? a.kv : a.qkv;
  check_attention(p, a.out, {}, {});
  CHECK(p.s == p.t && (!a.bias || (a.bias.shape.rank() == 2 && a.bias.shape[0] == p.heads())),
        "{} queries, {} keys, a bias of {}", p.t, p.s, to_string(a.bias.shape));
  CHECK(a.cache.shape.rank() == 5 && a.cache.shape[0] == p.b && a.cache.shape[2] == 2 &&
            a.cache.shape[3] == p.kv && a.cache.shape[4] == p.d,
        "attention of {} with a cache of {}", to_string(a.qkv.shape), to_string(a.cache.shape));
  const int64_t capacity = a.cache.shape[1];
  for (int64_t b = 0; b < p.b; ++b) {
    const int64_t start = a.start[b * p.t];
    CHECK(start >= 0 && start + p.t <= capacity, "positions {} to {} in a cache of {}", start,
          start + p.t, capacity);
  }
  const auto copy = &HWY_DYNAMIC_DISPATCH(CopyRows);
  const auto pack = &HWY_DYNAMIC_DISPATCH(PackKeyHead);
  // With at most this number of tokens, the result of a token has the same bits whatever the
  // number.
  constexpr int64_t kFewTokens = 16;
  const bool few = p.t <= kFewTokens;
  const auto attend =
      few ? &HWY_DYNAMIC_DISPATCH(AttendRows) : &HWY_DYNAMIC_DISPATCH(AttendQueries);
  // The new rows go into the cache first; then the queries read all keys, old and new, from it.
  parallel_tasks(p.b * p.kv, l.threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv, row = 2 * p.kv * p.d;
    const int64_t start = a.start[b * p.t], end = start + p.t;
    const Rows k{Sink(a.cache) + (b * capacity * row + kv * p.d), row};
    const Rows v{k.data + p.kv * p.d, row};
    copy(p.key(fresh, b, kv), p.t, p.d, {k.data + start * row, row});
    copy(p.value(fresh, b, kv), p.t, p.d, {v.data + start * row, row});
    const HeadBuffers buffers =
        head_buffers(l.workspace, thread, capacity, capacity, p.d, HeadUse::kForward);
    KeyHead keys;
    keys.t = end;
    keys.d = p.d;
    keys.values = p.values;
    keys.queries = p.t;
    keys.first_query = start;
    keys.scale = a.scale;
    keys.window = a.window;
    keys.soft_cap = a.soft_cap;
    keys.k = k;
    keys.v = v;
    if (!few) pack(keys, buffers);
    for (int64_t g = 0; g < p.g; ++g) {
      QueryHead h;
      h.q = p.query(a.qkv, b, kv, g);
      h.out = p.out(a.out, b, kv * p.g + g);
      h.sink = sink_of(a.sinks, p, kv * p.g + g);
      h.bias = cached_bias(a, p, kv * p.g + g, start, buffers);
      attend(keys, h, buffers);
    }
  });
}

}  // namespace tessera::kernels
