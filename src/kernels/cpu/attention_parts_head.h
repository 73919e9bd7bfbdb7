// The tiles of one head's T x T matrix, row by row of tiles.
#pragma once

#include <algorithm>

#include "kernels/cpu/attention_head.h"

namespace tessera::kernels {

// The sinks of a softmax: row r has one more score, that of head r / rows % heads, and its
// log-sum-exp is written.
struct SoftmaxSinks {
  Source sinks;          // [heads], or none
  float* lse = nullptr;  // [samples, heads, rows]
  int64_t rows = 1, heads = 1;

  explicit operator bool() const { return static_cast<bool>(sinks); }
  float of(int64_t row) const { return sinks[row / rows % heads]; }
};

struct SquareTile {
  int64_t t, i = 0, j = 0;  // queries i .. i + m - 1, keys j .. j + n - 1
  int64_t m, n;

  explicit SquareTile(int64_t size) : t(size) { measure(); }
  bool more() const { return i < t; }
  void next() {
    j += kTile;
    if (j >= t) {
      j = 0;
      i += kTile;
    }
    measure();
  }
  bool visible() const { return j <= i; }
  bool diagonal() const { return i == j; }
  Sight sight() const { return {i - j}; }

 private:
  void measure() {
    m = std::min(kTile, t - i);
    n = std::min(kTile, t - j);
  }
};

}  // namespace tessera::kernels
