// One row of a softmax: its maximum, its sum, its scale.
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_INLINE float RowMax(const float* z, int64_t n) {
  const F f;
  V m0 = hn::Set(f, z[0]), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    m0 = hn::Max(m0, hn::LoadU(f, z + i));
    m1 = hn::Max(m1, hn::LoadU(f, z + i + kLanes));
    m2 = hn::Max(m2, hn::LoadU(f, z + i + 2 * kLanes));
    m3 = hn::Max(m3, hn::LoadU(f, z + i + 3 * kLanes));
  }
  float most = MaxLanes(hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)));
  for (; i < n; ++i) most = HWY_MAX(most, z[i]);
  return most;
}

// Returns sum e^(z - shift), and replaces z by the terms if `keep`. Blocks are summed in f32, which
// is vector code, and joined in f64, so the error does not grow with the vocabulary.
HWY_INLINE double ExpSum(float* z, int64_t n, float shift, bool keep) {
  constexpr int64_t kBlock = 2048;
  const F f;
  const V s = hn::Set(f, shift);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = HWY_MIN(n, begin + kBlock);
    V sum0 = hn::Zero(f), sum1 = hn::Zero(f);
    int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      const V e0 = Exp(f, hn::Sub(hn::LoadU(f, z + i), s));
      const V e1 = Exp(f, hn::Sub(hn::LoadU(f, z + i + kLanes), s));
      sum0 = hn::Add(sum0, e0);
      sum1 = hn::Add(sum1, e1);
      if (!keep) continue;
      hn::StoreU(e0, f, z + i);
      hn::StoreU(e1, f, z + i + kLanes);
    }
    total += static_cast<double>(SumLanes(hn::Add(sum0, sum1)));
    for (; i < end; ++i) {
      const float e = hn::GetLane(Exp(f, hn::Set(f, z[i] - shift)));
      total += static_cast<double>(e);
      if (keep) z[i] = e;
    }
  }
  return total;
}

HWY_INLINE void ScaleRow(const float* from, int64_t n, float factor, Sink to) {
  const F f;
  const V s = hn::Set(f, factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(f, hn::Mul(s, hn::LoadU(f, from + i)), to, i);
  if (i < n) StoreSome(hn::Mul(s, LoadSome({from, DType::kF32}, i, n - i)), to, i, n - i);
}

HWY_NOINLINE inline float MaxOfRow(const float* z, int64_t n) { return RowMax(z, n); }

HWY_NOINLINE inline double ExpSumOfRow(float* z, int64_t n, float shift) {
  return ExpSum(z, n, shift, false);
}

// z becomes factor * e^(z - shift).
HWY_NOINLINE inline void GradientOfRow(float* z, int64_t n, float shift, float factor) {
  ExpSum(z, n, shift, true);
  ScaleRow(z, n, factor, Sink(z, DType::kF32));
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
