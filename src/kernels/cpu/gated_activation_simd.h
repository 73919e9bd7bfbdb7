// The gated activation and its gradient, for one instruction set.
#include "kernels/cpu/activation_rows.h"
#include "kernels/cpu/simd.h"

#include "kernels/cpu/activation_simd.h"  // after simd.h

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

using U = hn::RebindToUnsigned<F>;

struct Pairs {
  V gate, value;
};

// Loads pairs. Two 16-bit numbers are loaded as one 32-bit lane, with the first in its lower half.
HWY_INLINE Pairs LoadPairs(Source x, int64_t i) {
  const F f;
  if (x.type == DType::kBF16) {
    const U u;
    const auto both = hn::LoadU(u, static_cast<const uint32_t*>(x.data) + i);
    return {hn::BitCast(f, hn::ShiftLeft<16>(both)),
            hn::BitCast(f, hn::And(both, hn::Set(u, 0xffff0000u)))};
  }
  Pairs p;
  if (x.type == DType::kF32) {
    hn::LoadInterleaved2(f, static_cast<const float*>(x.data) + 2 * i, p.gate, p.value);
    return p;
  }
  alignas(64) float buffer[2 * kLanes];
  hn::Store(Load(f, x, 2 * i), f, buffer);
  hn::Store(Load(f, x, 2 * i + kLanes), f, buffer + kLanes);
  hn::LoadInterleaved2(f, buffer, p.gate, p.value);
  return p;
}

HWY_INLINE void StorePairs(Pairs p, Sink x, int64_t i) {
  const F f;
  if (x.type != DType::kF32) {
    const bool half = x.type == DType::kF16;
    const auto high = hn::ShiftLeft<16>(half ? BitsOfF16(f, p.value) : BitsOfBF16(f, p.value));
    const auto low = half ? BitsOfF16(f, p.gate) : BitsOfBF16(f, p.gate);
    hn::StoreU(hn::Or(low, high), U(), static_cast<uint32_t*>(x.data) + i);
  } else {
    hn::StoreInterleaved2(p.gate, p.value, f, static_cast<float*>(x.data) + 2 * i);
  }
}

HWY_INLINE ValueAndSlope Gate(GateKind kind, V g) {
  if (kind == GateKind::kSilu) return Silu(g);
  return kind == GateKind::kErf ? GeluErf(g) : GeluTanh(g);
}

// Loads n pairs, fewer than a vector; the other lanes are zero.
HWY_INLINE Pairs LoadSomePairs(Source x, int64_t i, int64_t n) {
  alignas(64) float buffer[2 * kLanes] = {};
  for (int64_t k = 0; k < 2 * n; ++k) buffer[k] = x[2 * i + k];
  return LoadPairs({buffer, DType::kF32}, 0);
}
HWY_INLINE void StoreSomePairs(Pairs p, Sink x, int64_t i, int64_t n) {
  alignas(64) float buffer[2 * kLanes] = {};
  StorePairs(p, {buffer, DType::kF32}, 0);
  for (int64_t k = 0; k < 2 * n; ++k) x.set(2 * i + k, buffer[k]);
}

// The operand that may be NaN is the second: x86's min and max return the second operand then.
HWY_INLINE Pairs Clamped(Pairs p) {
  const V most = hn::Set(F(), kGateLimit), least = hn::Set(F(), -kGateLimit);
  return {hn::Min(most, p.gate), hn::Min(most, hn::Max(least, p.value))};
}

HWY_INLINE V GatedValue(GateKind kind, Pairs p) {
  if (kind != GateKind::kClamped) return hn::Mul(Gate(kind, p.gate).y, p.value);
  const Pairs c = Clamped(p);
  return hn::Mul(Swish(c.gate, kGateSlope).y, hn::Add(c.value, hn::Set(F(), 1.0f)));
}

HWY_NOINLINE inline void GatedForward(const GatedRows& a, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    Store(F(), GatedValue(a.kind, LoadPairs(a.x, i)), a.y, i);
  }
  if (i < end) StoreSome(GatedValue(a.kind, LoadSomePairs(a.x, i, end - i)), a.y, i, end - i);
}

HWY_INLINE Pairs ClampedSlopes(Pairs p, V dy) {
  const V most = hn::Set(F(), kGateLimit);
  const Pairs c = Clamped(p);
  const ValueAndSlope g = Swish(c.gate, kGateSlope);
  const V by_gate = hn::Mul(hn::Mul(dy, hn::Add(c.value, hn::Set(F(), 1.0f))), g.dy);
  return {hn::IfThenZeroElse(hn::Gt(p.gate, most), by_gate),
          hn::IfThenZeroElse(hn::Gt(hn::Abs(p.value), most), hn::Mul(dy, g.y))};
}

HWY_INLINE Pairs GatedSlopes(GateKind kind, Pairs p, V dy) {
  if (kind == GateKind::kClamped) return ClampedSlopes(p, dy);
  const ValueAndSlope g = Gate(kind, p.gate);
  return {hn::Mul(hn::Mul(dy, p.value), g.dy), hn::Mul(dy, g.y)};
}

HWY_NOINLINE inline void GatedBackward(const GatedGradRows& a, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    StorePairs(GatedSlopes(a.kind, LoadPairs(a.x, i), Load(F(), a.dy, i)), a.dx, i);
  }
  if (i == end) return;
  const Pairs some = LoadSomePairs(a.x, i, end - i);
  StoreSomePairs(GatedSlopes(a.kind, some, LoadSome(a.dy, i, end - i)), a.dx, i, end - i);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
