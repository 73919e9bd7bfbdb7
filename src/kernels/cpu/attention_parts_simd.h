// Attention in its parts, for one instruction set.
#include "kernels/cpu/attention_parts_head.h"
#include "kernels/cpu/simd.h"

#include "kernels/cpu/tile_product_simd.h"  // after simd.h

#include "kernels/cpu/attention_tiles_simd.h"  // after both

#include "kernels/cpu/attention_scope_simd.h"  // after all

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// One tile between the T x T matrix and f32; what a row does not see becomes `hidden`.
HWY_INLINE void StoreTile(const float* tile, const SquareTile& at, float hidden, const Rows& to) {
  const F f;
  for (int64_t r = 0; r < at.m; ++r) {
    const Sink row = to.data + ((at.i + r) * to.stride + at.j);
    const int64_t seen = at.sight().of(r);
    for (int64_t c = 0; c < at.n; c += kLanes) {
      const auto live = hn::FirstN(f, static_cast<size_t>(HWY_MAX(seen - c, int64_t{0})));
      const V x = hn::IfThenElse(live, hn::LoadU(f, tile + r * kTile + c), hn::Set(f, hidden));
      StoreSome(x, row, c, at.n - c);
    }
  }
}

HWY_INLINE void LoadTile(const ConstRows& from, const SquareTile& at, float* tile) {
  const F f;
  for (int64_t r = 0; r < at.m; ++r) {
    const Source row = from.data + ((at.i + r) * from.stride + at.j);
    const int64_t seen = HWY_MIN(at.sight().of(r), at.n);
    for (int64_t c = 0; c < kTile; c += kLanes) {
      const V x = c < seen ? LoadSome(row, c, seen - c) : hn::Zero(f);
      const auto live = hn::FirstN(f, static_cast<size_t>(HWY_MAX(seen - c, int64_t{0})));
      hn::StoreU(hn::IfThenElseZero(live, x), f, tile + r * kTile + c);
    }
  }
}

// Packs rows, and their transposed tiles if `transposed` is given.
HWY_INLINE void PackHead(const ConstRows& from, const KeyHead& h, float scale, float* rows,
                         float* transposed) {
  const int64_t width = round_up(h.d, kPad);
  PackRows(from, 0, h.t, h.d, scale, rows);
  for (int64_t j = 0; transposed != nullptr && j < h.t; j += kTile) {
    TransposeTile(rows + j * width, HWY_MIN(kTile, h.t - j), h.d, transposed + j * h.d);
  }
}

HWY_NOINLINE inline void ScoresOfHead(const KeyHead& keys, const QueryHead& h, const Rows& scores,
                                      const HeadBuffers& b) {
  const int64_t d = keys.d, width = round_up(d, kPad);
  PackHead(keys.k, keys, 1.0f, b.k, b.k_transposed);
  PackHead(h.q, keys, keys.scale, b.q, nullptr);
  for (SquareTile at(keys.t); at.more(); at.next()) {
    if (at.visible()) {
      DotTile(b.q + at.i * width, b.k_transposed + at.j * d, at.m, d, at.diagonal(), b.scores);
      CapScores(keys, at.m, b.scores);
      HideBeforeWindow(keys, at.i, at.j, at.m, -HUGE_VALF, b.scores);
    }
    StoreTile(b.scores, at, -HUGE_VALF, scores);
  }
}

// Multiplies a tile of d_scores by the slopes of the soft cap, for which it computes the scores.
HWY_INLINE void MultiplyByCapSlopes(const KeyHead& keys, const SquareTile& at,
                                    const HeadBuffers& b) {
  if (keys.soft_cap == 0) return;
  const F f;
  const int64_t d = keys.d, width = round_up(d, kPad);
  DotTile(b.q + at.i * width, b.k_transposed + at.j * d, at.m, d, at.diagonal(), b.scores);
  CapScores(keys, at.m, b.scores);
  for (int64_t i = 0; i < at.m * kTile; i += kLanes) {
    const V slope = CapSlope(hn::LoadU(f, b.scores + i), keys.soft_cap);
    // Masked elements are 0 in d_scores and undefined in scores.
    const V ds = hn::LoadU(f, b.d_scores + i);
    const auto seen = hn::Ne(ds, hn::Zero(f));
    hn::StoreU(hn::IfThenElseZero(seen, hn::Mul(ds, slope)), f, b.d_scores + i);
  }
}

// Adds to b.dk; writes dq.
HWY_NOINLINE inline void ScoresGradOfHead(const KeyHead& keys, const QueryHead& h,
                                          const ConstRows& d_scores, const HeadBuffers& b) {
  const int64_t d = keys.d, width = round_up(d, kPad);
  PackHead(keys.k, keys, 1.0f, b.k, keys.soft_cap > 0 ? b.k_transposed : nullptr);
  PackHead(h.q, keys, keys.scale, b.q, nullptr);
  ZeroRows(b.dq, keys.t, d);
  for (SquareTile at(keys.t); at.more(); at.next()) {
    if (!at.visible()) continue;
    LoadTile(d_scores, at, b.d_scores);
    MultiplyByCapSlopes(keys, at, b);
    float* const dk = b.dk + at.j * width;
    MixTransposedTile(b.d_scores, b.q + at.i * width, at.m, at.n, d, at.diagonal(), dk);
    float* const dq = b.dq + at.i * width;
    MixTile(b.d_scores, b.k + at.j * width, at.m, at.n, d, at.diagonal(), true, dq);
  }
  StoreRows(b.dq, keys.t, d, keys.scale, h.dq);
}

HWY_NOINLINE inline void MixOfHead(const KeyHead& keys, const QueryHead& h,
                                   const ConstRows& probabilities, const HeadBuffers& b) {
  const int64_t d = keys.d, width = round_up(d, kPad);
  PackHead(keys.v, keys, 1.0f, b.k, nullptr);
  ZeroRows(b.dq, keys.t, d);
  for (SquareTile at(keys.t); at.more(); at.next()) {
    if (!at.visible()) continue;
    LoadTile(probabilities, at, b.scores);
    float* const to = b.dq + at.i * width;
    MixTile(b.scores, b.k + at.j * width, at.m, at.n, d, at.diagonal(), true, to);
  }
  StoreRows(b.dq, keys.t, d, 1.0f, h.out);
}

// Adds to b.dv; writes the gradient of the probabilities.
HWY_NOINLINE inline void MixGradOfHead(const KeyHead& keys, const QueryHead& h,
                                       const ConstRows& probabilities, const Rows& d_probabilities,
                                       const HeadBuffers& b) {
  const int64_t d = keys.d, width = round_up(d, kPad);
  PackHead(keys.v, keys, 1.0f, b.k, b.v_transposed);
  PackHead(h.d_out, keys, 1.0f, b.d_out, nullptr);
  for (SquareTile at(keys.t); at.more(); at.next()) {
    if (at.visible()) {
      LoadTile(probabilities, at, b.scores);
      const float* const d_out = b.d_out + at.i * width;
      float* const dv = b.dv + at.j * width;
      MixTransposedTile(b.scores, d_out, at.m, at.n, d, at.diagonal(), dv);
      DotTile(d_out, b.v_transposed + at.j * d, at.m, d, at.diagonal(), b.d_scores);
    }
    StoreTile(b.d_scores, at, 0.0f, d_probabilities);
  }
}

HWY_NOINLINE inline void ZeroKeyGrads(const KeyHead& keys, float* rows) {
  ZeroRows(rows, keys.t, keys.d);
}

HWY_NOINLINE inline void StoreKeyGrad(const KeyHead& keys, const float* rows, const Rows& to) {
  StoreRows(rows, keys.t, keys.d, 1.0f, to);
}

// Three passes over a row that stays in cache: maximum, sum, quotient. e^x is computed twice
// instead of stored, since y may have 16 bits. The maximum is subtracted so that e^x cannot
// overflow and the sum is at least 1.
HWY_NOINLINE inline void SoftmaxRows(Source x, Sink y, const SoftmaxSinks& sinks, int64_t d,
                                     int64_t begin, int64_t end) {
  const F f;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * d;
    float top = -HUGE_VALF;
    int64_t c = 0;
    V best = hn::Set(f, top);
    for (; c + kLanes <= d; c += kLanes) best = hn::Max(best, Load(f, x, at + c));
    top = MaxLanes(best);
    for (; c < d; ++c) top = HWY_MAX(top, hn::GetLane(LoadSome(x, at + c, 1)));
    if (sinks) top = HWY_MAX(top, sinks.of(row));
    V sum = hn::Zero(f);
    for (c = 0; c < d; c += kLanes) {
      const V p = Exp(f, hn::Sub(LoadSome(x, at + c, d - c), hn::Set(f, top)));
      const auto live = hn::FirstN(f, static_cast<size_t>(d - c));
      sum = hn::Add(sum, hn::IfThenElseZero(live, p));
    }
    float all = SumLanes(sum);
    if (sinks) {
      all += std::exp(sinks.of(row) - top);
      sinks.lse[row] = top + std::log(all);
    }
    const V inverse = hn::Set(f, 1.0f / all);
    for (c = 0; c < d; c += kLanes) {
      const V p = Exp(f, hn::Sub(LoadSome(x, at + c, d - c), hn::Set(f, top)));
      StoreSome(hn::Mul(p, inverse), y, at + c, d - c);
    }
  }
}

// The product of the softmax's Jacobian, diag(y) - y y^T, and dy: dx = y (dy - sum(y dy)).
HWY_NOINLINE inline void SoftmaxGradRows(Source y, Source dy, Sink dx, int64_t d, int64_t begin,
                                         int64_t end) {
  const F f;
  for (int64_t at = begin * d; at < end * d; at += d) {
    V sum = hn::Zero(f);
    for (int64_t c = 0; c < d; c += kLanes) {
      sum = hn::MulAdd(LoadSome(y, at + c, d - c), LoadSome(dy, at + c, d - c), sum);
    }
    const V mean = hn::Set(f, SumLanes(sum));
    for (int64_t c = 0; c < d; c += kLanes) {
      const V g = hn::Sub(LoadSome(dy, at + c, d - c), mean);
      StoreSome(hn::Mul(LoadSome(y, at + c, d - c), g), dx, at + c, d - c);
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
