// The largest score of one query head, for one instruction set: the tiles of attention_simd.h
// without a softmax.
#include "kernels/cpu/attention_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Returns the largest score that is above `most`, or `most`.
HWY_NOINLINE inline float MaxScore(const KeyHead& keys, const QueryHead& h, const HeadBuffers& b,
                                   float most) {
  const F f;
  V best = hn::Set(f, most);
  for (int64_t i = 0; i < keys.queries; i += kTile) {
    const int64_t m = HWY_MIN(kTile, keys.queries - i);
    const int64_t last = keys.causal ? HWY_MIN(keys.first_query + i + m, keys.t) : keys.t;
    PackRows(h.q, i, m, keys.d, keys.scale, b.q);
    for (int64_t j = keys.first_key(i); j < last; j += kTile) {
      if (IsApart(keys, i, j, m)) continue;
      const Sight sight = keys.sight(i, j);
      DotTile(b.q, b.k_transposed + j * keys.d, m, keys.d, sight.diagonal(), b.scores);
      HideKeys(keys, i, j, m, b.scores);
      for (int64_t r = 0; r < m; ++r) {
        const int64_t seen = sight.of(r);
        for (int64_t c = 0; c < seen; c += kLanes) {
          const auto live = hn::FirstN(f, static_cast<size_t>(seen - c));
          best = hn::Max(best, hn::IfThenElse(live, hn::LoadU(f, b.scores + r * kTile + c), best));
        }
      }
    }
  }
  return MaxLanes(best);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
