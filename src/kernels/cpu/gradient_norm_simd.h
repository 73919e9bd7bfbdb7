// Sums of squares and the search for non-finite values, for one instruction set.
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

constexpr int64_t kSums = 8;  // fixed, so that every target adds in the same order

// Sums squares in 8 interleaved doubles for any vector width, and adds these in order. The product
// of two floats is exact in double, so fused and separate multiply-add give the same bits.
HWY_NOINLINE inline double SumSquares(Source x, int64_t begin, int64_t end) {
  double sums[kSums] = {};
  alignas(64) float buffer[kLanes > kSums ? kLanes : kSums];
  for (int64_t i = begin; i < end; i += kSums) {
    const int64_t n = HWY_MIN(kSums, end - i);
    const float* p = x.as<float>() + i;
    if (x.type != DType::kF32 || n < kSums) {
      for (int64_t k = 0; k < kSums; ++k) buffer[k] = 0;
      for (int64_t k = 0; k < n; ++k) buffer[k] = x[i + k];
      p = buffer;
    }
    for (int64_t k = 0; k < kSums; ++k) {
      const double wide = p[k];
      sums[k] += wide * wide;
    }
  }
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

// Returns the first element of [begin, end) that is infinite or NaN, or end.
HWY_NOINLINE inline int64_t FindNonFinite(Source x, int64_t begin, int64_t end) {
  const F f;
  for (int64_t i = begin; i < end; i += kLanes) {
    const V v = LoadSome(x, i, end - i);
    if (hn::AllTrue(f, hn::IsFinite(v))) continue;
    for (int64_t k = i; k < HWY_MIN(end, i + kLanes); ++k) {
      const V one = hn::Set(f, hn::GetLane(LoadSome(x, k, 1)));
      if (!hn::AllTrue(f, hn::IsFinite(one))) return k;
    }
  }
  return end;
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
