#include <cmath>

#include "kernels/attention.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/attention_grad_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_grad_simd.h"
#include "kernels/cpu/packed_heads.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(PackKeyHeadForGrad);
HWY_EXPORT(AttendQueriesGrad);
HWY_EXPORT(StoreKeyGrads);

int64_t attention_grad_workspace_bytes(int64_t t, int64_t d, int threads) {
  return threads * head_buffers_bytes(t, d, HeadUse::kGradient);
}

void attention_grad(const AttentionGrad& a, void* workspace) {
  const PackedHeads p(a.qkv);
  check_attention(p, a.out, a.lse, a.dropout);
  CHECK(a.d_out.elements() == a.out.elements() && a.d_qkv.elements() == a.qkv.elements(),
        "attention_grad: out {}, d_out {}, qkv {}, d_qkv {}", to_string(a.out.shape),
        to_string(a.d_out.shape), to_string(a.qkv.shape), to_string(a.d_qkv.shape));
  const auto pack = &HWY_DYNAMIC_DISPATCH(PackKeyHeadForGrad);
  const auto attend = &HWY_DYNAMIC_DISPATCH(AttendQueriesGrad);
  const auto store = &HWY_DYNAMIC_DISPATCH(StoreKeyGrads);
  parallel_tasks(p.b * p.kv, a.threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv;
    const HeadBuffers buffers = head_buffers(workspace, thread, p.t, p.d, HeadUse::kGradient);
    const KeyHead keys{.t = p.t,
                       .d = p.d,
                       .queries = p.t,
                       .first_query = 0,
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
