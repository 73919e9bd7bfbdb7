// Operands of the vectorized attention kernels: one key head and the query heads that share it.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/random_rows.h"

namespace tessera::kernels {

// Queries and keys are processed in square tiles of 64: a tile's row is a whole number of vectors
// of every width, and what one pair of tiles needs stays in the L2 cache.
constexpr int64_t kTile = 64;
// Columns are padded with zeros to a whole number of the widest vectors.
constexpr int64_t kPad = 16;

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Row t of a slice starts at data + t * stride.
struct Rows {
  Sink data;
  int64_t stride = 0;
};
struct ConstRows {
  Source data;
  int64_t stride = 0;
  ConstRows() = default;
  ConstRows(const Rows& r) : data(r.data), stride(r.stride) {}  // NOLINT: meant to convert
};

// The masks of one query head of one sample; see attention.h.
struct HeadDropout {
  uint32_t threshold = 0;  // 0: no dropout
  uint64_t key = 0, sample = 0;
  int64_t first_element = 0, row_elements = 0;
  float scale = 1;
};

// Visible columns in row `r` of a tile of scores: the first base + r + 1, at most `most`.
struct Sight {
  int64_t base, most = kTile;
  bool diagonal() const { return base == 0; }
  int64_t of(int64_t r) const {
    const int64_t n = base + r + 1;
    return n < 0 ? 0 : (n > most ? most : n);
  }
};

struct KeyHead {
  int64_t t = 0, d = 0, values = 0;      // keys, and widths of keys and of values
  int64_t queries = 0, first_query = 0;  // number, and position of the first
  float scale = 1;
  ConstRows k, v;
  Rows dk, dv;       // gradient only
  bool add = false;  // dk, dv and the dq of the query heads are added to
  bool causal = true;
  int64_t window = 0;  // number of most recent keys that a query attends to; 0: all
  float soft_cap = 0;  // 0: none
  // A query attends only to keys with its label; nullptr: to all. Key labels are padded to kTile.
  const int32_t *key_labels = nullptr, *query_labels = nullptr;  // query_labels nullptr: all 1

  // Return the first key, at a tile border, that queries from i on see; the first query, at a tile
  // border, that sees a key from j on; and the end of the queries that see a key before j.
  int64_t first_key(int64_t i) const {
    const int64_t first = first_query + i - window + 1;
    return window == 0 || first <= 0 ? 0 : first / kTile * kTile;
  }
  int64_t first_tile_of_queries(int64_t j) const {
    return causal && j > first_query ? (j - first_query) / kTile * kTile : 0;
  }
  int64_t end_query(int64_t j) const {
    const int64_t end = j - 1 + window - first_query;
    return window == 0 || end > queries ? queries : end;
  }

  Sight sight(int64_t i, int64_t j) const {
    return {causal ? first_query + i - j : kTile, t - j < kTile ? t - j : kTile};
  }
};

struct QueryHead {
  ConstRows q;
  Rows out;  // read in the gradient
  float* lse = nullptr;
  bool continues = false;   // out and lse hold the result for other keys
  float sink = -HUGE_VALF;  // score more in the sum of each row; -infinity: none
  ConstRows d_out;          // gradient only
  Rows dq;
  HeadDropout dropout;
  // By distance: element j - i + queries - 1 belongs to query i and key j.
  const float* bias = nullptr;
  float* d_bias = nullptr;  // gradient only
};

// One thread's buffers, f32. T', S' and D' are T, S and D, padded to kTile and kPad: keys have S',
// queries T' rows.
struct HeadBuffers {
  float *k_transposed, *v_transposed;  // [S' / kTile, D, kTile]; v's in the gradient only
  float *k, *v;                        // [S', D']; forward: k is one tile
  float *q, *d_out;                    // [T', D']; forward: q is one tile, d_out none
  float *dq, *dk, *dv;                 // [T' or S', D']; forward: dq is one tile, the rest none
  float *scores, *d_scores, *mask;     // [kTile, kTile]
  float *row_max, *row_sum, *delta;    // [kTile], [kTile, kPad], [T']
  float *bias, *d_bias;                // [T' + S']; d_bias in the gradient only
  int32_t* labels;                     // [S']
};

}  // namespace tessera::kernels
