// Packing, causal GEMMs of tiles, and masks, shared by the forward and the gradient of attention.
// Include after simd.h and tile_product_simd.h, once per target.
#include "kernels/cpu/attention_head.h"

#include "kernels/cpu/philox_simd.h"  // after simd.h

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// The number of rows of a diagonal tile that are computed together. Keys that none of these queries
// attends to are skipped.
constexpr int64_t kDiagonalRows = 2 * kTileRows;

// to[i, :] = scale * from[begin + i, :] for i < count, in f32, columns padded with zeros.
HWY_NOINLINE inline void PackRows(const ConstRows& from, int64_t begin, int64_t count, int64_t d,
                                  float scale, float* to) {
  const F f;
  const V factor = hn::Set(f, scale);
  const int64_t width = round_up(d, kPad);
  for (int64_t i = 0; i < count; ++i) {
    const Source row = from.data + (begin + i) * from.stride;
    for (int64_t c = 0; c < width; c += kLanes) {
      const V x = c < d ? LoadSome(row, c, d - c) : hn::Zero(f);
      hn::StoreU(hn::Mul(x, factor), f, to + i * width + c);
    }
  }
}

// The reverse: to[i, :] = scale * rows[i, :] for i < t, or with `add` += it.
HWY_NOINLINE inline void StoreRows(const float* rows, int64_t t, int64_t d, float scale,
                                   const Rows& to, bool add = false) {
  const F f;
  const int64_t width = round_up(d, kPad);
  for (int64_t i = 0; i < t; ++i) {
    const Sink row = to.data + i * to.stride;
    for (int64_t c = 0; c < d; c += kLanes) {
      V x = hn::Mul(hn::LoadU(f, rows + i * width + c), hn::Set(f, scale));
      if (add) x = hn::Add(x, LoadSome(row, c, d - c));
      StoreSome(x, row, c, d - c);
    }
  }
}

// to[i, begin : end] = 0 for i < t: what narrow values leave of their rows.
HWY_INLINE void ZeroColumns(int64_t t, int64_t begin, int64_t end, const Rows& to) {
  const F f;
  for (int64_t i = 0; begin < end && i < t; ++i)
    for (int64_t c = begin; c < end; c += kLanes)
      StoreSome(hn::Zero(f), to.data + i * to.stride, c, end - c);
}

// to[c, i] = rows[i, c] for a tile of `count` rows; missing rows are zero.
HWY_NOINLINE inline void TransposeTile(const float* HWY_RESTRICT rows, int64_t count, int64_t d,
                                       float* HWY_RESTRICT to) {
  const int64_t width = round_up(d, kPad);
  for (int64_t c = 0; c < d; ++c) {
    for (int64_t i = 0; i < count; ++i) to[c * kTile + i] = rows[i * width + c];
    for (int64_t i = count; i < kTile; ++i) to[c * kTile + i] = 0;
  }
}

// to[i, j] = rows[i, :] . transposed[:, j] for one tile. On the diagonal, only the keys that a row
// attends to are computed, and a few more.
HWY_NOINLINE inline void DotTile(const float* rows, const float* transposed, int64_t m, int64_t d,
                                 bool diagonal, float* to) {
  const int64_t width = round_up(d, kPad), step = diagonal ? kDiagonalRows : kTile;
  for (int64_t i = 0; i < m; i += step) {
    const int64_t some = HWY_MIN(step, m - i);
    const int64_t n = diagonal ? HWY_MIN(kTile, round_up(i + some, kLanes)) : kTile;
    const TileProduct t{rows + i * width, width, 1,    transposed, kTile,
                        to + i * kTile,   kTile, false};
    Multiply(t, some, n, d);
  }
}

// to[i, :] += sum_j p[i, j] rows[j, :], from keys to queries. p is 0 for masked keys.
HWY_NOINLINE inline void MixTile(const float* p, const float* rows, int64_t m, int64_t n, int64_t d,
                                 bool diagonal, bool accumulate, float* to) {
  const int64_t width = round_up(d, kPad), step = diagonal ? kDiagonalRows : kTile;
  for (int64_t i = 0; i < m; i += step) {
    const int64_t some = HWY_MIN(step, m - i);
    const TileProduct t{p + i * kTile, kTile, 1, rows, width, to + i * width, width, accumulate};
    Multiply(t, some, width, diagonal ? HWY_MIN(n, i + some) : n);
  }
}

// to[j, :] += sum_i p[i, j] rows[i, :], from queries to keys.
HWY_NOINLINE inline void MixTransposedTile(const float* p, const float* rows, int64_t m, int64_t n,
                                           int64_t d, bool diagonal, float* to) {
  const int64_t width = round_up(d, kPad), step = diagonal ? kDiagonalRows : kTile;
  for (int64_t j = 0; j < n; j += step) {
    const int64_t some = HWY_MIN(step, n - j), i = diagonal ? j : 0;
    const TileProduct t{p + i * kTile + j, 1,     kTile, rows + i * width, width,
                        to + j * width,    width, true};
    Multiply(t, some, width, m - i);
  }
}

HWY_INLINE void ZeroRows(float* rows, int64_t t, int64_t d) {
  const F f;
  for (int64_t c = 0; c < t * round_up(d, kPad); c += kLanes) hn::StoreU(hn::Zero(f), f, rows + c);
}

// mask[r, c] = 0 if dropout drops key j + c of query i + r, else 1 / (1 - p).
HWY_NOINLINE inline void FillMask(const HeadDropout& dropout, int64_t i, int64_t j, int64_t m,
                                  float* mask) {
  static_assert(kTile == kPhiloxWords);
  const F f;
  const hn::RebindToUnsigned<F> u;
  const hn::RebindToSigned<F> s;  // 24 bits fit a signed integer, which x86 compares faster
  const auto threshold = hn::Set(s, static_cast<int32_t>(dropout.threshold));
  const V scale = hn::Set(f, dropout.scale);
  // A row of the mask uses kTile / 4 consecutive Philox blocks, so no state is needed.
  alignas(64) uint32_t words[kPhiloxWords];
  for (int64_t r = 0; r < m; ++r) {
    const int64_t element = dropout.first_element + (i + r) * dropout.row_elements + j;
    PhiloxWords(dropout.key, static_cast<uint64_t>(element / 4), dropout.sample, words);
    for (int64_t c = 0; c < kTile; c += kLanes) {
      const auto bits = hn::ShiftRight<8>(hn::LoadU(u, words + c));
      const auto dropped = hn::RebindMask(f, hn::Lt(hn::BitCast(s, bits), threshold));
      hn::StoreU(hn::IfThenZeroElse(dropped, scale), f, mask + r * kTile + c);
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
