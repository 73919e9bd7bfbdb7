// Forward attention of one key head and its query heads, for one instruction set (online softmax).
// A tile of queries visits the tiles of keys in order and keeps, per row, the maximum m so far, the
// sum l and the output o relative to that maximum. For a tile with scores s:
//   m' = max(m, max_j s_j),   alpha = e^(m - m')
//   l' = alpha l + sum_j e^(s_j - m'),   o' = alpha o + sum_j e^(s_j - m') v_j
// At the end out = o / l and the log-sum-exp is m + ln l, from which the gradient regenerates the
// probabilities; a sink s is one more such tile, with the sum 1 relative to s and no output.
// Dropout applies to the terms of o only, not to those of l.
#include "kernels/cpu/simd.h"

#include "kernels/cpu/tile_product_simd.h"  // after simd.h

#include "kernels/cpu/attention_tiles_simd.h"  // after both

#include "kernels/cpu/attention_scope_simd.h"  // after all

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void PackKeyHead(const KeyHead& h, const HeadBuffers& b) {
  const int64_t width = round_up(h.values, kPad);
  for (int64_t j = 0; j < h.t; j += kTile) {
    const int64_t n = HWY_MIN(kTile, h.t - j);
    PackRows(h.k, j, n, h.d, 1.0f, b.k);
    TransposeTile(b.k, n, h.d, b.k_transposed + j * h.d);
    PackRows(h.v, j, n, h.values, 1.0f, b.v + j * width);
  }
}

// Raises row_max of the m rows by a tile of scores. alpha becomes e^(old maximum - new maximum).
HWY_INLINE void RaiseMaxima(const float* scores, int64_t m, Sight sight, float* row_max,
                            float* alpha) {
  const F f;
  for (int64_t r = 0; r < m; ++r) {
    const int64_t seen = sight.of(r);
    V best = hn::Set(f, row_max[r]);
    int64_t c = 0;
    for (; c + kLanes <= seen; c += kLanes) {
      best = hn::Max(best, hn::LoadU(f, scores + r * kTile + c));
    }
    if (c < seen) {
      const auto live = hn::FirstN(f, static_cast<size_t>(seen - c));
      best = hn::Max(best, hn::IfThenElse(live, hn::LoadU(f, scores + r * kTile + c), best));
    }
    alpha[r] = row_max[r];
    row_max[r] = MaxLanes(best);
  }
  for (int64_t r = 0; r < kTile; r += kLanes) {
    const V change = hn::Sub(hn::LoadU(f, alpha + r), hn::LoadU(f, row_max + r));
    hn::StoreU(Exp(f, change), f, alpha + r);
  }
}

// Replaces scores by e^(s - max), and by zero where a row does not see the key. row_sum is kept per
// lane and reduced once, in StoreQueries.
HWY_INLINE void Exponentiate(float* scores, int64_t m, Sight sight, const float* row_max,
                             const float* alpha, float* row_sum) {
  const F f;
  for (int64_t r = 0; r < m; ++r) {
    const int64_t seen = sight.of(r);
    const V top = hn::Set(f, row_max[r]);
    float* const s = scores + r * kTile;
    V sum = hn::Mul(hn::LoadU(f, row_sum + r * kPad), hn::Set(f, alpha[r]));
    int64_t c = 0;
    for (; c + kLanes <= seen; c += kLanes) {
      const V p = Exp(f, hn::Sub(hn::LoadU(f, s + c), top));
      hn::StoreU(p, f, s + c);
      sum = hn::Add(sum, p);
    }
    for (; c < kTile; c += kLanes) {
      const auto live = hn::FirstN(f, static_cast<size_t>(HWY_MAX(seen - c, int64_t{0})));
      const V p = hn::IfThenElseZero(live, Exp(f, hn::Sub(hn::LoadU(f, s + c), top)));
      hn::StoreU(p, f, s + c);
      sum = hn::Add(sum, p);
    }
    hn::StoreU(sum, f, row_sum + r * kPad);
  }
}

HWY_INLINE void ScaleRows(const float* alpha, int64_t m, int64_t width, float* rows) {
  const F f;
  for (int64_t r = 0; r < m; ++r) {
    // Most tiles do not raise the maximum.
    if (alpha[r] == 1.0f) continue;
    const V factor = hn::Set(f, alpha[r]);
    for (int64_t c = 0; c < width; c += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(f, rows + r * width + c), factor), f, rows + r * width + c);
    }
  }
}

HWY_INLINE void MultiplyTile(const float* mask, int64_t m, float* p) {
  const F f;
  for (int64_t i = 0; i < m * kTile; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(f, p + i), hn::LoadU(f, mask + i)), f, p + i);
  }
}

// The end of a row: the factor of its output, and its log-sum-exp. With a sink they are computed in
// double: the distance to a far sink, rounded to f32, would be an error of the exponential.
struct RowEnd {
  float factor, lse;
};
HWY_INLINE RowEnd EndOfRow(float most, float sum, float sink) {
  if (sink == -HUGE_VALF) return {1.0f / sum, most + std::log(sum)};
  const double top = HWY_MAX(most, sink), own = std::exp(double{most} - top);
  const double all = double{sum} * own + std::exp(double{sink} - top);
  return {static_cast<float>(own / all), static_cast<float>(top + std::log(all))};
}

// Divides by the sums, and stores the outputs and log-sum-exps of queries i .. i + m - 1.
HWY_INLINE void StoreQueries(const QueryHead& h, int64_t i, int64_t m, int64_t d,
                             const HeadBuffers& b) {
  const F f;
  const int64_t width = round_up(d, kPad);
  for (int64_t r = 0; r < m; ++r) {
    const float sum = SumLanes(hn::LoadU(f, b.row_sum + r * kPad));
    const RowEnd end = EndOfRow(b.row_max[r], sum, h.sink);
    const V factor = hn::Set(f, end.factor);
    const Sink out = h.out.data + (i + r) * h.out.stride;
    for (int64_t c = 0; c < d; c += kLanes) {
      StoreSome(hn::Mul(hn::LoadU(f, b.dq + r * width + c), factor), out, c, d - c);
    }
    if (h.lse != nullptr) h.lse[i + r] = end.lse;
  }
}

// Starts the m rows from i on: at nothing, or at the result for other keys. The log-sum-exp of
// these is used as their maximum, with a sum of 1.
HWY_INLINE void StartQueries(const QueryHead& h, int64_t i, int64_t m, int64_t d,
                             const HeadBuffers& b) {
  const F f;
  for (int64_t r = 0; r < kTile; ++r) b.row_max[r] = -HUGE_VALF;
  for (int64_t r = 0; r < kTile * kPad; r += kLanes) hn::StoreU(hn::Zero(f), f, b.row_sum + r);
  if (!h.continues) return;
  for (int64_t r = 0; r < m; ++r) {
    b.row_max[r] = h.lse[i + r];
    b.row_sum[r * kPad] = 1;
  }
  PackRows(h.out, i, m, d, 1.0f, b.dq);
}

HWY_NOINLINE inline void AttendQueries(const KeyHead& keys, const QueryHead& h,
                                       const HeadBuffers& b) {
  const int64_t d = keys.d, values = keys.values, width = round_up(values, kPad);
  alignas(64) float alpha[kTile] = {};
  for (int64_t i = 0; i < keys.queries; i += kTile) {
    const int64_t m = HWY_MIN(kTile, keys.queries - i);
    const int64_t last = keys.causal ? HWY_MIN(keys.first_query + i + m, keys.t) : keys.t;
    PackRows(h.q, i, m, d, keys.scale, b.q);
    StartQueries(h, i, m, values, b);
    // The first visible tile writes b.dq, which here holds the output o, so it need not be zeroed.
    bool first = !h.continues;
    for (int64_t j = keys.first_key(i); j < last; j += kTile) {
      if (IsApart(keys, i, j, m)) continue;
      const Sight sight = keys.sight(i, j);
      const bool diagonal = sight.diagonal();
      DotTile(b.q, b.k_transposed + j * d, m, d, diagonal, b.scores);
      CapScores(keys, m, b.scores);
      AddBias(keys, h, i, j, m, b.scores);
      HideKeys(keys, i, j, m, b.scores);
      RaiseMaxima(b.scores, m, sight, b.row_max, alpha);
      Exponentiate(b.scores, m, sight, b.row_max, alpha, b.row_sum);
      if (h.dropout.threshold > 0) {
        FillMask(h.dropout, i, j, m, b.mask);
        MultiplyTile(b.mask, m, b.scores);
      }
      if (!first) ScaleRows(alpha, m, width, b.dq);
      const int64_t n = HWY_MIN(kTile, keys.t - j);
      MixTile(b.scores, b.v + j * width, m, n, values, diagonal, !first, b.dq);
      first = false;
    }
    StoreQueries(h, i, m, values, b);
  }
}

// to[i, :] = from[i, :] for i < count.
HWY_NOINLINE inline void CopyRows(const ConstRows& from, int64_t count, int64_t d, const Rows& to) {
  for (int64_t i = 0; i < count; ++i) {
    const Source a = from.data + i * from.stride;
    const Sink b = to.data + i * to.stride;
    for (int64_t c = 0; c < d; c += kLanes) StoreSome(LoadSome(a, c, d - c), b, c, d - c);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
