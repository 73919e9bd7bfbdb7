// The binding of attention over a cache of keys and values.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::CachedAttentionArgs args(const BoundOp& b) {
  const CachedAttention& of = b.op->as<CachedAttention>();
  kernels::CachedAttentionArgs a;
  a.qkv = b.in(CachedAttention::kQkv);
  a.out = b.out(CachedAttention::kOut);
  a.cache = b.out(CachedAttention::kCache);
  a.start = b.in(CachedAttention::kPositions).as<int32_t>();
  a.scale = static_cast<float>(of.scale);
  a.kv = b.in(CachedAttention::kKv);
  a.bias = b.in(CachedAttention::kBias);
  a.bias_distance = of.bias_distance;
  a.window = of.window;
  a.soft_cap = static_cast<float>(of.soft_cap);
  a.sinks = b.in(CachedAttention::kSinks);
  return a;
}

}  // namespace

template <>
const Binding& binding_for<CachedAttention>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}

}  // namespace tessera::runtime
