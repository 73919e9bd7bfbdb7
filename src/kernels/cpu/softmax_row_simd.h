// One row of a softmax: its maximum, its sum, its scale; and the same of a row with a soft cap,
// which is applied whenever a logit is read.
#include "kernels/cpu/simd.h"
#include "kernels/cross_entropy.h"

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

// to = factor from - less
HWY_INLINE void ScaleRow(const float* from, int64_t n, float factor, float less, Sink to) {
  const F f;
  const V s = hn::Set(f, factor), l = hn::Set(f, less);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(f, hn::MulSub(s, hn::LoadU(f, from + i), l), to, i);
  if (i < n) StoreSome(hn::MulSub(s, LoadSome({from, DType::kF32}, i, n - i), l), to, i, n - i);
}

struct CappedLogit {
  V z, slope;
};
HWY_INLINE CappedLogit Capped(V z, float cap) {
  const F f;
  const V share = Tanh(f, hn::Mul(z, hn::Set(f, 1 / cap)));
  return {hn::Mul(share, hn::Set(f, cap)), hn::NegMulAdd(share, share, hn::Set(f, 1.0f))};
}
HWY_INLINE float CappedOne(float z, float cap) {
  return cap == 0 ? z : hn::GetLane(Capped(hn::Set(F(), z), cap).z);
}

// sum e^(z - shift) of the capped row, as ExpSum adds it.
HWY_INLINE double CappedExpSum(const float* z, int64_t n, float shift, float cap) {
  constexpr int64_t kBlock = 2048;
  const F f;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = HWY_MIN(n, begin + kBlock);
    V sum = hn::Zero(f);
    for (int64_t i = begin; i < end; i += kLanes) {
      const V x = LoadSome({z, DType::kF32}, i, end - i);
      const V e = Exp(f, hn::Sub(Capped(x, cap).z, hn::Set(f, shift)));
      const auto live = hn::FirstN(f, end - i);
      sum = hn::Add(sum, hn::IfThenElseZero(live, e));
    }
    total += SumLanes(sum);
  }
  return total;
}

// to = (slope e^(z - shift) - everywhere - at_label [i = label]) (1 - (z / cap)^2) of the capped
// row; `label` may be outside of it. `to` may be z.
HWY_INLINE void CappedGradient(const float* z, int64_t n, float shift, float cap,
                               const RowGradient& g, int64_t label, Sink to) {
  const F f;
  const bool has_label = label >= 0 && label < n;
  float at_label = 0;
  if (has_label) {
    const CappedLogit own = Capped(hn::Set(f, z[label]), cap);
    const V e = Exp(f, hn::Sub(own.z, hn::Set(f, shift)));
    const V less = hn::MulSub(hn::Set(f, g.slope), e, hn::Set(f, g.everywhere + g.at_label));
    at_label = hn::GetLane(hn::Mul(less, own.slope));
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    const CappedLogit x = Capped(LoadSome({z, DType::kF32}, i, n - i), cap);
    const V e = Exp(f, hn::Sub(x.z, hn::Set(f, shift)));
    const V less = hn::MulSub(hn::Set(f, g.slope), e, hn::Set(f, g.everywhere));
    StoreSome(hn::Mul(less, x.slope), to, i, n - i);
  }
  if (has_label) to.set(label, at_label);
}

// The functions below read an uncapped row and apply the soft cap themselves; 0: no cap.

HWY_NOINLINE inline float MaxOfRow(const float* z, int64_t n, float cap) {
  return CappedOne(RowMax(z, n), cap);
}

HWY_NOINLINE inline float NumberOfRow(const float* z, int64_t i, float cap) {
  return CappedOne(z[i], cap);
}

HWY_NOINLINE inline double ExpSumOfRow(float* z, int64_t n, float shift, float cap) {
  return cap > 0 ? CappedExpSum(z, n, shift, cap) : ExpSum(z, n, shift, false);
}

// z becomes (slope e^(z - shift) - everywhere - at_label [i = label]) times the slope of the cap.
HWY_NOINLINE inline void GradientOfRow(float* z, int64_t n, float shift, const RowGradient& g,
                                       float cap, int64_t label) {
  const Sink to(z, DType::kF32);
  if (cap > 0) return CappedGradient(z, n, shift, cap, g, label, to);
  ExpSum(z, n, shift, true);
  ScaleRow(z, n, g.slope, g.everywhere, to);
  if (label >= 0) z[label] -= g.at_label;
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
