// Steps applied to a tile of scores: the soft cap, the bias by distance, and the masks of
// documents, padding and windows.
// Include after attention_tiles_simd.h, once per target.
HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// A masked score: below every other score, yet finite, so that a row in which all keys are masked
// has equal probabilities instead of NaN.
constexpr float kMaskedScore = -1e30f;

// Returns true if no query of the tile has the label of one of its keys. The test is by ranges,
// which suffices because document labels ascend. It is never true for padding: a query without any
// visible key must still get the mean of all values.
HWY_INLINE bool IsApart(const KeyHead& keys, int64_t i, int64_t j, int64_t m) {
  if (keys.query_labels == nullptr) return false;
  const int32_t* const own = keys.query_labels + i;
  const int32_t* const other = keys.key_labels + j;
  const int64_t n = HWY_MIN(kTile, keys.t - j);
  int32_t lowest = own[0], highest = own[0], first = other[0], last = other[0];
  for (int64_t r = 1; r < m; ++r) {
    lowest = HWY_MIN(lowest, own[r]);
    highest = HWY_MAX(highest, own[r]);
  }
  for (int64_t c = 1; c < n; ++c) {
    first = HWY_MIN(first, other[c]);
    last = HWY_MAX(last, other[c]);
  }
  return last < lowest || first > highest;
}

// s = cap tanh(s / cap)
HWY_INLINE void CapScores(const KeyHead& keys, int64_t m, float* scores) {
  if (keys.soft_cap == 0) return;
  const F f;
  const V cap = hn::Set(f, keys.soft_cap), inverse = hn::Set(f, 1 / keys.soft_cap);
  for (int64_t i = 0; i < m * kTile; i += kLanes)
    hn::StoreU(hn::Mul(cap, Tanh(f, hn::Mul(hn::LoadU(f, scores + i), inverse))), f, scores + i);
}

// Returns the derivative of the soft cap, from the capped score. Masked scores are far below -cap
// and get a gradient of 0.
HWY_INLINE V CapSlope(V s, float cap) {
  const F f;
  const V share = hn::Max(hn::Mul(s, hn::Set(f, 1 / cap)), hn::Set(f, -1.0f));
  return hn::NegMulAdd(share, share, hn::Set(f, 1.0f));
}

HWY_INLINE void AddBias(const KeyHead& keys, const QueryHead& h, int64_t i, int64_t j, int64_t m,
                        float* scores) {
  if (h.bias == nullptr) return;
  const F f;
  for (int64_t r = 0; r < m; ++r) {
    const float* const bias = h.bias + (j - i - r + keys.queries - 1);
    float* const s = scores + r * kTile;
    for (int64_t c = 0; c < kTile; c += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(f, s + c), hn::LoadU(f, bias + c)), f, s + c);
    }
  }
}

// The gradient of the bias: sums along the diagonals.
HWY_INLINE void AddBiasGrad(const KeyHead& keys, const QueryHead& h, int64_t i, int64_t j,
                            int64_t m, const float* d_scores) {
  if (h.d_bias == nullptr) return;
  const F f;
  for (int64_t r = 0; r < m; ++r) {
    float* const sums = h.d_bias + (j - i - r + keys.queries - 1);
    const float* const ds = d_scores + r * kTile;
    for (int64_t c = 0; c < kTile; c += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(f, sums + c), hn::LoadU(f, ds + c)), f, sums + c);
    }
  }
}

// Hides the keys before each query's window, in a tile with such keys.
HWY_INLINE void HideBeforeWindow(const KeyHead& keys, int64_t i, int64_t j, int64_t m, float hidden,
                                 float* scores) {
  const int64_t first = keys.first_query + i - keys.window + 1 - j;  // first key of row 0
  if (keys.window == 0 || first + m <= 1) return;
  const F f;
  for (int64_t r = 0; r < m; ++r) {
    const int64_t before = HWY_MIN(first + r, kTile);
    float* const s = scores + r * kTile;
    for (int64_t c = 0; c < before; c += kLanes) {
      const auto gone = hn::FirstN(f, before - c);
      hn::StoreU(hn::IfThenElse(gone, hn::Set(f, hidden), hn::LoadU(f, s + c)), f, s + c);
    }
  }
}

HWY_INLINE void HideKeys(const KeyHead& keys, int64_t i, int64_t j, int64_t m, float* scores) {
  HideBeforeWindow(keys, i, j, m, kMaskedScore, scores);
  if (keys.key_labels == nullptr) return;
  const F f;
  const hn::RebindToSigned<F> n;
  const V hidden = hn::Set(f, kMaskedScore);
  for (int64_t r = 0; r < m; ++r) {
    const auto own = hn::Set(n, keys.query_labels == nullptr ? 1 : keys.query_labels[i + r]);
    float* const s = scores + r * kTile;
    for (int64_t c = 0; c < kTile; c += kLanes) {
      const auto seen = hn::RebindMask(f, hn::Eq(hn::LoadU(n, keys.key_labels + j + c), own));
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(f, s + c), hidden), f, s + c);
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
