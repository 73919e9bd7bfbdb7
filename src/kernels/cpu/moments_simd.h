// Moments in 8 bits (base/moment_code.h), for one instruction set. Include after simd.h, once per
// target, so it has no include guard.
#include <cstring>

#include "base/moment_code.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Reads the block with these codes.
HWY_INLINE void ReadMoments(const MomentTable& t, const uint8_t* codes, float scale, float* x) {
  const F f;
  const hn::RebindToSigned<F> d32;
  const hn::Rebind<uint8_t, F> d8;
  const V s = hn::Set(f, scale);
  for (int64_t i = 0; i < kMomentBlock; i += kLanes) {
    const auto index = hn::PromoteTo(d32, hn::LoadU(d8, codes + i));
    hn::StoreU(hn::Mul(hn::GatherIndex(f, t.values, index), s), f, x + i);
  }
}

// The element with the largest magnitude; of two with one magnitude, the positive one.
HWY_INLINE float ScaleOfBlock(const float* x) {
  const F f;
  V high = hn::Zero(f), low = hn::Zero(f);
  for (int64_t i = 0; i < kMomentBlock; i += kLanes) {
    const V v = hn::LoadU(f, x + i);
    high = hn::Max(high, v);
    low = hn::Min(low, v);
  }
  const float most = hn::GetLane(hn::MaxOfLanes(f, high));
  const float least = hn::GetLane(hn::MinOfLanes(f, low));
  return most >= -least ? most : least;
}

// Writes the codes of a block, and returns its scale.
template <bool kSigned>
HWY_INLINE float WriteMoments(const MomentTable& t, const float* x, uint8_t* codes) {
  const F f;
  const hn::RebindToSigned<F> d32;
  const hn::Rebind<uint8_t, F> d8;
  const float scale = ScaleOfBlock(x);
  if (scale < kSmallestMomentScale && scale > -kSmallestMomentScale) {
    std::memset(codes, 0, kMomentBlock);
    return 0;
  }
  const V divisor = hn::Set(f, scale), zero = hn::Zero(f);
  for (int64_t i = 0; i < kMomentBlock; i += kLanes) {
    const V ratio = hn::Div(hn::LoadU(f, x + i), divisor), a = hn::Abs(ratio);
    V slope = zero, shift = zero, last = zero;
    for (const MomentStep& s : t.steps) {
      const auto from = hn::Ge(a, hn::Set(f, s.from));
      slope = hn::IfThenElse(from, hn::Set(f, s.slope), slope);
      shift = hn::IfThenElse(from, hn::Set(f, s.shift), shift);
      last = hn::IfThenElse(from, hn::Set(f, s.last), last);
    }
    auto n = hn::ConvertTo(d32, hn::Min(hn::MulAdd(a, slope, shift), last));
    if constexpr (kSigned) {
      const auto negative = hn::RebindMask(d32, hn::Lt(ratio, zero));
      // There is no value -1.
      n = hn::IfThenElse(negative, hn::Neg(hn::Min(n, hn::Set(d32, 127))), n);
    } else {
      const auto positive = hn::RebindMask(d32, hn::Gt(a, zero));
      n = hn::IfThenElseZero(positive, hn::Max(n, hn::Set(d32, 1)));
    }
    hn::StoreU(hn::DemoteTo(d8, hn::And(n, hn::Set(d32, 255))), d8, codes + i);
  }
  return scale;
}

HWY_INLINE float WriteMoments(MomentCode code, const float* x, uint8_t* codes) {
  const MomentTable& t = table_of(code);
  return code == MomentCode::kSigned ? WriteMoments<true>(t, x, codes)
                                     : WriteMoments<false>(t, x, codes);
}

// Reads n moments from the beginning of a block on, and zeros up to the end of the last block.
HWY_INLINE void ReadSomeMoments(MomentCode code, const uint8_t* codes, const float* scales,
                                int64_t n, float* x) {
  const MomentTable& t = table_of(code);
  for (int64_t i = 0; i < n; i += kMomentBlock) {
    alignas(64) uint8_t padded[kMomentBlock] = {};
    const bool whole = n - i >= kMomentBlock;
    if (!whole) std::memcpy(padded, codes + i, static_cast<size_t>(n - i));
    ReadMoments(t, whole ? codes + i : padded, scales[i / kMomentBlock], x + i);
    // The scale may be infinite, and infinity times 0 is not zero.
    for (int64_t k = n; k < i + kMomentBlock; ++k) x[k] = 0;
  }
}

// Writes the first n moments of x, which has zeros up to the end of the last block.
HWY_INLINE void WriteSomeMoments(MomentCode code, const float* x, int64_t n, uint8_t* codes,
                                 float* scales) {
  for (int64_t i = 0; i < n; i += kMomentBlock) {
    alignas(64) uint8_t padded[kMomentBlock];
    const bool whole = n - i >= kMomentBlock;
    scales[i / kMomentBlock] = WriteMoments(code, x + i, whole ? codes + i : padded);
    if (!whole) std::memcpy(codes + i, padded, static_cast<size_t>(n - i));
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
