// The norm of queries and keys and its gradient, for one instruction set.
#include <cmath>

#include "kernels/cpu/head_norm_rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/sum_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_INLINE float SquaresOfRow(Source x, int64_t at, int64_t d) {
  const F f;
  V sum = hn::Zero(f);
  for (int64_t c = 0; c < d; c += kLanes) {
    const V v = LoadSome(x, at + c, d - c);
    sum = hn::MulAdd(v, v, sum);
  }
  return SumLanes(sum);
}

// Returns r of a head: from its own squares, or from those of its token.
HWY_INLINE float RootOfHead(const HeadNormRows& a, int64_t token, int64_t at, int64_t slot) {
  const float squares = a.squares != nullptr ? a.squares[2 * token + (a.is_key(slot) ? 1 : 0)]
                                             : SquaresOfRow(a.qkv, at, a.d);
  return 1.0f / std::sqrt(squares * a.share(slot) + a.epsilon);
}

HWY_INLINE V GainOf(const HeadNormRows& a, Source gain, int64_t c) {
  return hn::Add(LoadSome(gain, c, a.d - c), hn::Set(F(), a.offset));
}

HWY_INLINE void CopyRow(Source from, int64_t at, int64_t d, Sink to) {
  for (int64_t c = 0; c < d; c += kLanes)
    StoreSome(LoadSome(from, at + c, d - c), to, at + c, d - c);
}

HWY_NOINLINE inline void NormalizeHeads(const HeadNormRows& a, Sink y, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token)
    for (int64_t group = 0; group < a.kv; ++group) {
      for (int64_t slot = 0; slot + 1 < a.slots; ++slot) {
        const int64_t at = a.at(token, group, slot);
        const Source gain = a.gain(group, slot);
        const V root = hn::Set(F(), RootOfHead(a, token, at, slot));
        for (int64_t c = 0; c < a.d; c += kLanes) {
          const V x = hn::Mul(LoadSome(a.qkv, at + c, a.d - c), root);
          StoreSome(hn::Mul(x, GainOf(a, gain, c)), y, at + c, a.d - c);
        }
      }
      CopyRow(a.qkv, a.at(token, group, a.slots - 1), a.d, y);
    }
}

// One head: writes dx, adds to the gain's sums, and returns r^2 sum(dy g x) times the share.
HWY_INLINE float HeadGrad(const HeadNormGradRows& a, int64_t token, int64_t group, int64_t slot,
                          float* sums) {
  const F f;
  const HeadNormRows& n = a.norm;
  const int64_t at = n.at(token, group, slot), d = n.d;
  const Source gain = n.gain(group, slot);
  const float r = RootOfHead(n, token, at, slot);
  const V root = hn::Set(f, r);
  V dot = hn::Zero(f);
  for (int64_t c = 0; c < d; c += kLanes) {
    const V dy = LoadSome(a.dy, at + c, d - c), xr = hn::Mul(LoadSome(n.qkv, at + c, d - c), root);
    dot = hn::MulAdd(hn::Mul(dy, GainOf(n, gain, c)), xr, dot);
    const Sink sum = {sums, DType::kF32};
    StoreSome(hn::MulAdd(dy, xr, LoadSome(sum, c, d - c)), sum, c, d - c);
  }
  const float mean = SumLanes(dot) * n.share(slot);
  const V less = hn::Set(f, n.squares == nullptr ? mean : 0.0f);
  for (int64_t c = 0; c < d; c += kLanes) {
    const V g = hn::Mul(LoadSome(a.dy, at + c, d - c), GainOf(n, gain, c));
    const V xr = hn::Mul(LoadSome(n.qkv, at + c, d - c), root);
    StoreSome(hn::Mul(root, hn::NegMulAdd(xr, less, g)), a.dx, at + c, d - c);
  }
  return mean * r * r;
}

HWY_NOINLINE inline void HeadNormGradBlock(const HeadNormGradRows& a, int64_t block) {
  const HeadNormRows& n = a.norm;
  float* const sums = a.partials + block * a.gains;
  for (int64_t c = 0; c < a.gains; ++c) sums[c] = 0;
  const int64_t end = HWY_MIN(a.tokens, (block + 1) * kBlockRows);
  for (int64_t token = block * kBlockRows; token < end; ++token) {
    float whole[2] = {};
    for (int64_t group = 0; group < n.kv; ++group) {
      for (int64_t slot = 0; slot + 1 < n.slots; ++slot) {
        const bool key = n.is_key(slot);
        float* const own = sums + (key ? a.query_gains : 0) + n.gain_at(group, slot);
        whole[key ? 1 : 0] += HeadGrad(a, token, group, slot, own);
      }
      CopyRow(a.dy, n.at(token, group, n.slots - 1), n.d, a.dx);
    }
    // xr dy g has one r; the other two of r^3 are in HeadGrad's result.
    for (int64_t i = 0; a.d_squares != nullptr && i < 2; ++i)
      a.d_squares[2 * token + i] = -0.5f * whole[i];
  }
}

HWY_NOINLINE inline void SumSquaresOfHeads(const HeadNormRows& a, float* squares, int64_t begin,
                                           int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    float sums[2] = {};
    for (int64_t group = 0; group < a.kv; ++group)
      for (int64_t slot = 0; slot + 1 < a.slots; ++slot)
        sums[a.is_key(slot) ? 1 : 0] += SquaresOfRow(a.qkv, a.at(token, group, slot), a.d);
    squares[2 * token] = sums[0];
    squares[2 * token + 1] = sums[1];
  }
}

// dx += 2 x d_squares of queries and keys. a.squares are the gradients.
HWY_NOINLINE inline void AddSquaresGrad(const HeadNormRows& a, Sink dx, int64_t begin,
                                        int64_t end) {
  for (int64_t token = begin; token < end; ++token)
    for (int64_t group = 0; group < a.kv; ++group)
      for (int64_t slot = 0; slot + 1 < a.slots; ++slot) {
        const int64_t at = a.at(token, group, slot);
        const V by = hn::Set(F(), 2 * a.squares[2 * token + (a.is_key(slot) ? 1 : 0)]);
        for (int64_t c = 0; c < a.d; c += kLanes) {
          const int64_t n = a.d - c;
          StoreSome(hn::MulAdd(LoadSome(a.qkv, at + c, n), by, LoadSome(dx, at + c, n)), dx, at + c,
                    n);
        }
      }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
