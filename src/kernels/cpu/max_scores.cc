// The largest attention scores on the CPU. As in attention, a task is one key head of one sample,
// with its keys packed into the buffers of its thread. Each task writes a maximum of its own, and
// the maxima of the samples are joined at the end.
// Workspace:  [ HeadBuffers of thread 0 | … of thread T - 1 | ScopeOfHeads | maxima [B, KV] ]
#include <algorithm>

#define HWY_TARGET_INCLUDE "kernels/cpu/max_scores_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_scope.h"
#include "kernels/cpu/max_scores_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(PackKeyHead);
HWY_EXPORT(MaxScore);

namespace {

int64_t buffers_bytes(int64_t t, int64_t s, int64_t d, int threads) {
  return threads * head_buffers_bytes(t, s, d, HeadUse::kForward);
}

}  // namespace

int64_t workspace_bytes(Cpu, const MaxScoresArgs& a, int threads) {
  const int64_t t = a.qkv.shape[1], s = keys_of(a.qkv, a.kv);
  return buffers_bytes(t, s, a.qkv.shape[4], threads) + scope_bytes(t, s, 0) +
         bytes_for<float>(a.qkv.shape[0] * a.qkv.shape[2]);
}

void launch(Cpu, const Launch& l, const MaxScoresArgs& a) {
  const PackedHeads p(a.qkv, a.kv);
  CHECK(a.most.dtype == DType::kF32 && a.most.elements() == p.kv && !a.scope.bias && !a.scope.ids &&
            a.scope.soft_cap == 0,
        "max_scores of {} in {}", to_string(a.qkv.shape), to_string(a.most.shape));
  const TensorView& keys_in = a.kv ? a.kv : a.qkv;
  char* const after = static_cast<char*>(l.workspace) + buffers_bytes(p.t, p.s, p.d, l.threads);
  const ScopeOfHeads scope(a.scope, p, after);
  auto* const maxima = reinterpret_cast<float*>(after + scope_bytes(p.t, p.s, 0));
  const auto pack = &HWY_DYNAMIC_DISPATCH(PackKeyHead);
  const auto max_score = &HWY_DYNAMIC_DISPATCH(MaxScore);
  parallel_tasks(p.b * p.kv, l.threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv;
    const HeadBuffers buffers = head_buffers(l.workspace, thread, p.t, p.s, p.d, HeadUse::kForward);
    KeyHead keys = p.keys(keys_in, b, kv, a.scale);
    scope.bind_keys(b, buffers, keys);
    pack(keys, buffers);
    float most = 0;
    for (int64_t g = 0; g < p.g; ++g) {
      QueryHead h;
      h.q = p.query(a.qkv, b, kv, g);
      most = max_score(keys, h, buffers, most);
    }
    maxima[task] = most;
  });
  float* const most = a.most.f32();
  for (int64_t task = 0; task < p.b * p.kv; ++task)
    most[task % p.kv] = std::max(most[task % p.kv], maxima[task]);
}

}  // namespace tessera::kernels
