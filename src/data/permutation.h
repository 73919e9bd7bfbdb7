// A random order of n things that is never written down: any place of it can be asked for.
#pragma once

#include <array>
#include <cstdint>

namespace tessera {

// A Feistel network on pairs (left, right) with left < A and right < B, A·B ≥ n, A ≈ B ≈ √n:
//   left  = (left  + F_k(right)) mod A      right = (right + F_k(left)) mod B      four times each
// F_k mixes with a round key that Philox draws from `key`. Each round can be undone, so the whole
// is a bijection of [0, A·B); a result that is n or more is put in again until one is below n
// ("cycle walking"; A·B − n < A, so that is rare), which leaves a bijection of [0, n).
class Permutation {
 public:
  Permutation(uint64_t key, int64_t n);

  int64_t size() const { return static_cast<int64_t>(n_); }
  int64_t operator()(int64_t i) const;  // 0 ≤ i < size()
  int64_t place_of(int64_t x) const;    // the inverse: the i with (*this)(i) == x

 private:
  static constexpr int kRounds = 8;
  uint64_t n_, left_, right_;  // n, A, B
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace tessera
