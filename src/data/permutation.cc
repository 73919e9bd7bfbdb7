// A pseudorandom permutation of [0, n) computed per element: a Feistel network over Z_A x Z_B with
// cycle walking (Black & Rogaway 2002, "Ciphers with arbitrary finite domains"). It needs no memory
// for the order, so an order of billions of samples costs nothing, and its inverse is computed the
// same way backwards.
#include "data/permutation.h"

#include <cmath>

#include "base/error.h"
#include "base/philox.h"

namespace tessera {
namespace {

// The finaliser of splitmix64 (Steele, Lea & Flood 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Maps the upper 32 bits of x, as a fraction of 2^32, to [0, range). Ranges are about √n, far below
// 2^32, so the bias is negligible.
uint64_t scale(uint64_t x, uint64_t range) { return ((x >> 32) * range) >> 32; }

}  // namespace

Permutation::Permutation(uint64_t key, int64_t n) : n_(static_cast<uint64_t>(n)) {
  constexpr int64_t kMost = int64_t{1} << 60;  // keeps both sides below 2^31
  CHECK(n >= 0 && n < kMost, "a permutation of {} things", n);
  left_ = static_cast<uint64_t>(std::sqrt(static_cast<double>(n_)));
  // The root of a large n may round down.
  while (left_ * left_ < n_) ++left_;
  right_ = left_ == 0 ? 0 : (n_ + left_ - 1) / left_;
  const Philox random{key};
  for (int r = 0; r < kRounds; ++r) {
    keys_[r] = random.word(static_cast<uint64_t>(r));
  }
}

int64_t Permutation::operator()(int64_t i) const {
  CHECK(i >= 0 && static_cast<uint64_t>(i) < n_, "place {} of {}", i, n_);
  uint64_t x = static_cast<uint64_t>(i);
  // Values of [n, A·B) are walked through the network again. Fewer than A values are outside, so
  // nearly all calls take one turn; and since the network is a bijection of a finite set, the walk
  // returns.
  do {
    uint64_t a = x / right_, b = x % right_;
    for (size_t r = 0; r < kRounds; r += 2) {
      a += scale(mix(b + keys_[r]), left_);
      if (a >= left_) a -= left_;
      b += scale(mix(a + keys_[r + 1]), right_);
      if (b >= right_) b -= right_;
    }
    x = a * right_ + b;
  } while (x >= n_);
  return static_cast<int64_t>(x);
}

int64_t Permutation::place_of(int64_t to) const {
  CHECK(to >= 0 && static_cast<uint64_t>(to) < n_, "{} of {}", to, n_);
  uint64_t x = static_cast<uint64_t>(to);
  do {
    uint64_t a = x / right_, b = x % right_;
    // Undoes the rounds in reverse order; unsigned arithmetic wraps to the right difference.
    for (size_t r = kRounds; r > 0; r -= 2) {
      const uint64_t from_a = scale(mix(a + keys_[r - 1]), right_);
      b += b < from_a ? right_ - from_a : -from_a;
      const uint64_t from_b = scale(mix(b + keys_[r - 2]), left_);
      a += a < from_b ? left_ - from_b : -from_b;
    }
    x = a * right_ + b;
  } while (x >= n_);
  return static_cast<int64_t>(x);
}

}  // namespace tessera
