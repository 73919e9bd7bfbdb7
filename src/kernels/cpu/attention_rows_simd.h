// Attention of single queries to keys and values where they are, for decoding: the keys of a long
// text are read once per query and not copied, which would cost more than the attention itself. The
// steps are those of attention_simd.h, with tiles of one query, so the bits of a query do not
// depend on how many are computed in one call. Compiled once per target, so it has no include
// guard.
#include "kernels/cpu/attention_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// scores[c] = q . keys[j + c, :] for c < n. `q` is padded with zeros to kPad.
HWY_INLINE void DotRow(const float* q, const ConstRows& keys, int64_t j, int64_t n, int64_t d,
                       float* scores) {
  const F f;
  constexpr int64_t kKeys = 4;  // sums in flight, which hide the latency of the multiply-add
  int64_t c = 0;
  for (; c + kKeys <= n; c += kKeys) {
    V sum[kKeys];
    for (V& s : sum) s = hn::Zero(f);
    for (int64_t p = 0; p < d; p += kLanes) {
      const V x = hn::LoadU(f, q + p);
      for (int64_t k = 0; k < kKeys; ++k)
        sum[k] = hn::MulAdd(x, LoadSome(keys.data + (j + c + k) * keys.stride, p, d - p), sum[k]);
    }
    for (int64_t k = 0; k < kKeys; ++k) scores[c + k] = SumLanes(sum[k]);
  }
  for (; c < n; ++c) {
    V sum = hn::Zero(f);
    for (int64_t p = 0; p < d; p += kLanes)
      sum = hn::MulAdd(hn::LoadU(f, q + p), LoadSome(keys.data + (j + c) * keys.stride, p, d - p),
                       sum);
    scores[c] = SumLanes(sum);
  }
}

// out = factor * out + sum over c < n of p[c] values[j + c, :]. `out` is padded to kPad.
HWY_INLINE void MixRow(const float* p, const ConstRows& values, int64_t j, int64_t n, int64_t d,
                       float factor, float* out) {
  const F f;
  constexpr int64_t kVectors = 4;
  int64_t v = 0;
  for (; v + kVectors * kLanes <= d; v += kVectors * kLanes) {
    V sum[kVectors];
    for (int64_t k = 0; k < kVectors; ++k)
      sum[k] = hn::Mul(hn::Set(f, factor), hn::LoadU(f, out + v + k * kLanes));
    for (int64_t c = 0; c < n; ++c) {
      const V weight = hn::Set(f, p[c]);
      const Source row = values.data + (j + c) * values.stride;
      for (int64_t k = 0; k < kVectors; ++k)
        sum[k] = hn::MulAdd(weight, Load(f, row, v + k * kLanes), sum[k]);
    }
    for (int64_t k = 0; k < kVectors; ++k) hn::StoreU(sum[k], f, out + v + k * kLanes);
  }
  for (; v < d; v += kLanes) {
    V sum = hn::Mul(hn::Set(f, factor), hn::LoadU(f, out + v));
    for (int64_t c = 0; c < n; ++c)
      sum = hn::MulAdd(hn::Set(f, p[c]), LoadSome(values.data + (j + c) * values.stride, v, d - v),
                       sum);
    hn::StoreU(sum, f, out + v);
  }
}

// Causal, without labels and dropout.
HWY_NOINLINE inline void AttendRows(const KeyHead& keys, const QueryHead& h, const HeadBuffers& b) {
  const F f;
  alignas(64) float alpha[kTile] = {};
  for (int64_t i = 0; i < keys.queries; ++i) {
    const int64_t last = keys.first_query + i + 1;
    PackRows(h.q, i, 1, keys.d, keys.scale, b.q);
    for (int64_t r = 0; r < kTile; r += kLanes)
      hn::StoreU(hn::Set(f, -HUGE_VALF), f, b.row_max + r);
    for (int64_t c = 0; c < kPad; c += kLanes) hn::StoreU(hn::Zero(f), f, b.row_sum + c);
    for (int64_t c = 0; c < round_up(keys.values, kPad); c += kLanes)
      hn::StoreU(hn::Zero(f), f, b.dq + c);
    for (int64_t c = 0; c < kTile; c += kLanes) hn::StoreU(hn::Zero(f), f, b.scores + c);
    for (int64_t j = keys.first_key(i); j < last; j += kTile) {
      const int64_t n = HWY_MIN(kTile, last - j);
      const Sight sight = keys.sight(i, j);
      DotRow(b.q, keys.k, j, n, keys.d, b.scores);
      CapScores(keys, 1, b.scores);
      AddBias(keys, h, i, j, 1, b.scores);
      HideKeys(keys, i, j, 1, b.scores);
      RaiseMaxima(b.scores, 1, sight, b.row_max, alpha);
      Exponentiate(b.scores, 1, sight, b.row_max, alpha, b.row_sum);
      // The first tile has alpha = e^-infinity = 0.
      MixRow(b.scores, keys.v, j, n, keys.values, alpha[0], b.dq);
    }
    StoreQueries(h, i, 1, keys.values, b);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
