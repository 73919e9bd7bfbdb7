// The driver of the attention gradient on the CPU; attention_grad_simd.h has the algorithm. One
// task is one key head of one sample, as in attention.cc: dk and dv are sums over its G query
// heads, which one thread adds in order. The gradients of biases are kept per sample and head and
// added at the end in a fixed order (ScopeOfHeads).
#include <cmath>

#include "kernels/attention.h"

#define HWY_TARGET_INCLUDE "kernels/cpu/attention_grad_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_grad_simd.h"
#include "kernels/cpu/attention_scope.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(PackKeyHeadForGrad);
HWY_EXPORT(AttendQueriesGrad);
HWY_EXPORT(StoreKeyGrads);

int64_t workspace_bytes(Cpu, const AttentionGradArgs& a, int threads) {
  const Shape& q = a.qkv.shape;
  const int64_t t = q[1], s = keys_of(a.qkv, a.kv), d = q[4];
  const int64_t heads = q[2] * (q[3] - (a.kv.shape.rank() > 0 ? 0 : 2));
  const int64_t buckets = a.scope.bias.shape.rank() > 0 ? a.scope.bias.shape[1] : 0;
  return threads * head_buffers_bytes(t, s, d, HeadUse::kGradient) +
         scope_bytes(t, s, q[0] * heads * buckets);
}

void launch(Cpu, const Launch& l, const AttentionGradArgs& a) {
  const PackedHeads p(a.qkv, a.kv, a.out.shape[-1]);
  check_attention(p, a.out, a.lse, a.dropout);
  CHECK(a.d_out.elements() == a.out.elements() && a.d_qkv.elements() == a.qkv.elements() &&
            (!a.kv || a.d_kv.elements() == a.kv.elements()),
        "attention_grad: out {}, d_out {}, qkv {}, d_qkv {}", to_string(a.out.shape),
        to_string(a.d_out.shape), to_string(a.qkv.shape), to_string(a.d_qkv.shape));
  CHECK(!a.add || (a.kv && a.d_qkv.dtype == DType::kF32 && a.d_kv.dtype == DType::kF32),
        "attention_grad adds to {} and {}", name_of(a.d_qkv.dtype), name_of(a.d_kv.dtype));
  const TensorView &keys_in = a.kv ? a.kv : a.qkv, &d_keys = a.kv ? a.d_kv : a.d_qkv;
  const int64_t buffers_bytes = head_buffers_bytes(p.t, p.s, p.d, HeadUse::kGradient);
  const ScopeOfHeads scope(a.scope, p, static_cast<char*>(l.workspace) + l.threads * buffers_bytes);
  const auto pack = &HWY_DYNAMIC_DISPATCH(PackKeyHeadForGrad);
  const auto attend = &HWY_DYNAMIC_DISPATCH(AttendQueriesGrad);
  const auto store = &HWY_DYNAMIC_DISPATCH(StoreKeyGrads);
  parallel_tasks(p.b * p.kv, l.threads, [&](int64_t task, int thread) {
    const int64_t b = task / p.kv, kv = task % p.kv;
    const HeadBuffers buffers =
        head_buffers(l.workspace, thread, p.t, p.s, p.d, HeadUse::kGradient);
    KeyHead keys = p.keys(keys_in, b, kv, a.scale);
    keys.dk = p.key(d_keys, b, kv);
    keys.dv = p.value(d_keys, b, kv);
    keys.add = a.add;
    scope.bind_keys(b, buffers, keys);
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
      scope.bind_query(head, buffers, true, h);
      attend(keys, h, buffers);
      scope.store_bias_gradient(b, head, h);
    }
    store(keys, buffers);
  });
  scope.reduce_bias_gradient(a.d_bias, a.fresh_bias);
}

}  // namespace tessera::kernels
