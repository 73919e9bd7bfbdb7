// The gradient of attention of one key head, for one instruction set (Dao 2023). With p regenerated
// from the stored log-sum-exp, mask M (dropout, else 1) and delta_i = out_i · d_out_i, which equals
// sum_j p_ij dp_ij:
//   p_ij  = e^(s_ij - lse_i)
//   dv_j  = sum_i M_ij p_ij d_out_i
//   ds_ij = p_ij (M_ij (d_out_i · v_j) - delta_i), times 1 - (s_ij / cap)^2 with a soft cap
//   dq_i  = scale sum_j ds_ij k_j,   dk_j = sum_i ds_ij (scale q_i)
// Tiles of keys are the outer loop; causal attention starts at the tile of queries on the diagonal.
// Queries are packed with the scale, so dk needs none, and dq gets it as it is stored.
#include "kernels/cpu/simd.h"

#include "kernels/cpu/tile_product_simd.h"  // after simd.h

#include "kernels/cpu/attention_tiles_simd.h"  // after both

#include "kernels/cpu/attention_scope_simd.h"  // after all

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

HWY_NOINLINE inline void PackKeyHeadForGrad(const KeyHead& h, const HeadBuffers& b) {
  const int64_t width = round_up(h.d, kPad);
  for (int64_t j = 0; j < h.t; j += kTile) {
    const int64_t n = HWY_MIN(kTile, h.t - j);
    // b.k serves as scratch: v is only needed transposed, for d_out · v.
    PackRows(h.v, j, n, h.values, 1.0f, b.k + j * width);
    TransposeTile(b.k + j * width, n, h.values, b.v_transposed + j * h.values);
    PackRows(h.k, j, n, h.d, 1.0f, b.k + j * width);
    TransposeTile(b.k + j * width, n, h.d, b.k_transposed + j * h.d);
  }
  ZeroRows(b.dk, h.t, h.d);
  ZeroRows(b.dv, h.t, h.values);
}

// Packs a query head, zeroes dq and computes delta[t] = out[t] · d_out[t].
HWY_INLINE void PackQueryHeadForGrad(const KeyHead& keys, const QueryHead& h,
                                     const HeadBuffers& b) {
  const F f;
  const int64_t values = keys.values, width = round_up(values, kPad);
  PackRows(h.q, 0, keys.queries, keys.d, keys.scale, b.q);
  PackRows(h.d_out, 0, keys.queries, values, 1.0f, b.d_out);
  for (int64_t t = 0; t < keys.queries; ++t) {
    const Source out = h.out.data + t * h.out.stride;
    V sum = hn::Zero(f);
    for (int64_t c = 0; c < values; c += kLanes) {
      sum = hn::MulAdd(hn::LoadU(f, b.d_out + t * width + c), LoadSome(out, c, values - c), sum);
    }
    b.delta[t] = SumLanes(sum);
  }
  ZeroRows(b.dq, keys.queries, keys.d);
}

// scores -> p (dropped, scaled) and d_scores -> p * (mask * d_scores - delta).
HWY_INLINE void ScoresGrad(const HeadBuffers& b, const float* lse, const float* delta, int64_t m,
                           Sight sight, bool masked, float soft_cap) {
  const F f;
  for (int64_t r = 0; r < m; ++r) {
    const V top = hn::Set(f, lse[r]), less = hn::Set(f, delta[r]);
    const int64_t sees = sight.of(r);
    for (int64_t c = 0; c < kTile; c += kLanes) {
      const int64_t at = r * kTile + c;
      const V s = hn::LoadU(f, b.scores + at);
      V p = Exp(f, hn::Sub(s, top));
      V dp = hn::LoadU(f, b.d_scores + at);
      const V mask = masked ? hn::LoadU(f, b.mask + at) : hn::Set(f, 1.0f);
      V ds = hn::Mul(p, hn::MulSub(dp, mask, less));
      if (soft_cap > 0) ds = hn::Mul(ds, CapSlope(s, soft_cap));
      p = hn::Mul(p, mask);
      if (c + kLanes > sees) {
        const auto seen = hn::FirstN(f, static_cast<size_t>(HWY_MAX(sees - c, int64_t{0})));
        p = hn::IfThenElseZero(seen, p);
        ds = hn::IfThenElseZero(seen, ds);
      }
      hn::StoreU(p, f, b.scores + at);
      hn::StoreU(ds, f, b.d_scores + at);
    }
  }
}

HWY_NOINLINE inline void AttendQueriesGrad(const KeyHead& keys, const QueryHead& h,
                                           const HeadBuffers& b) {
  const int64_t d = keys.d, width = round_up(d, kPad);
  const int64_t values = keys.values, value_width = round_up(values, kPad);
  const bool masked = h.dropout.threshold > 0;
  PackQueryHeadForGrad(keys, h, b);
  for (int64_t j = 0; j < keys.t; j += kTile) {
    const int64_t n = HWY_MIN(kTile, keys.t - j);
    const int64_t end = keys.end_query(j + n);
    for (int64_t i = keys.first_tile_of_queries(j); i < end; i += kTile) {
      const int64_t m = HWY_MIN(kTile, keys.queries - i);
      if (IsApart(keys, i, j, m)) continue;
      const Sight sight = keys.sight(i, j);
      const bool diagonal = sight.diagonal();
      DotTile(b.q + i * width, b.k_transposed + j * d, m, d, diagonal, b.scores);
      CapScores(keys, m, b.scores);
      AddBias(keys, h, i, j, m, b.scores);
      HideKeys(keys, i, j, m, b.scores);
      const float* const d_out = b.d_out + i * value_width;
      DotTile(d_out, b.v_transposed + j * values, m, values, diagonal, b.d_scores);
      if (masked) FillMask(h.dropout, i, j, m, b.mask);
      ScoresGrad(b, h.lse + i, b.delta + i, m, sight, masked, keys.soft_cap);
      AddBiasGrad(keys, h, i, j, m, b.d_scores);
      MixTransposedTile(b.scores, d_out, m, n, values, diagonal, b.dv + j * value_width);
      MixTransposedTile(b.d_scores, b.q + i * width, m, n, d, diagonal, b.dk + j * width);
      MixTile(b.d_scores, b.k + j * width, m, n, d, diagonal, true, b.dq + i * width);
    }
  }
  StoreRows(b.dq, keys.queries, d, keys.scale, h.dq, keys.add);
}

HWY_NOINLINE inline void StoreKeyGrads(const KeyHead& h, const HeadBuffers& b) {
  StoreRows(b.dk, h.t, h.d, 1.0f, h.dk, h.add);
  StoreRows(b.dv, h.t, h.values, 1.0f, h.dv, h.add);
  if (!h.add) ZeroColumns(h.t, h.values, h.d, h.dv);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
