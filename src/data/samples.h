// The order in which a dataset's tokens are read: documents are concatenated and cut into samples.
//
// In each epoch, the documents are concatenated in a random order, and the stream of their N tokens
// is cut: sample i contains tokens [i·T, i·T + T], T + 1 of them, the last of which is the first of
// sample i + 1 (as in Megatron), so each token is predicted once. There are n = ⌊(N − 1) / T⌋
// samples; the fewer than T tokens after them are not used in this epoch. The samples are read in a
// random order too. Both orders are pure functions of (seed, epoch).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "data/indexed_dataset.h"

namespace tessera::data {

// ---- A random permutation of n items that is computed on demand instead of stored.

// A Feistel network on pairs (left, right) with left < A and right < B, A·B ≥ n, A ≈ B ≈ √n:
//   left  = (left  + F_k(right)) mod A      right = (right + F_k(left)) mod B      four times each
// F_k mixes with a round key that Philox generates from `key`. Each round is invertible, so the
// network is a bijection of [0, A·B). A result >= n is fed into the network again until it is below
// n ("cycle walking"; rare, since A·B − n < A), which gives a bijection of [0, n).
class Permutation {
 public:
  Permutation(uint64_t key, int64_t n);

  int64_t size() const { return n_; }
  int64_t operator()(int64_t i) const;  // 0 ≤ i < size()
  int64_t place_of(int64_t x) const;    // the inverse: the i with (*this)(i) == x

 private:
  static constexpr int kRounds = 8;
  uint64_t n_, left_, right_;  // n, A, B
  std::array<uint64_t, kRounds> keys_;
};

// Sequences [begin, end) of a dataset.
struct SequenceRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Returns the sequences of part `part` of a split such as "969,30,1", as Megatron-Core divides a
// dataset into train, validation and test: the shares are normalized and accumulated, and the
// bounds are rounded half to even. With an empty split, part 0 is the whole dataset. Throws Error
// if the split is not a list of one to three numbers ≥ 0, or if their sum is 0.
SequenceRange split_range(std::string_view split, int part, int64_t sequences);

// Tokens [from, from + count) of one sequence, which are part of a sample.
struct SamplePiece {
  int64_t sequence = 0, from = 0, count = 0;
};

// The concatenation of the sequences of a range in a random order.
class PackedStream {
 public:
  PackedStream(const IndexedDataset& data, SequenceRange range, uint64_t key);

  int64_t tokens() const { return tokens_; }
  // Visits the pieces that make up tokens [from, from + count) of the stream, in order.
  void visit(int64_t from, int64_t count,
             const std::function<void(const SamplePiece&)>& piece) const;

 private:
  const IndexedDataset& data_;
  SequenceRange range_;
  Permutation order_;
  int64_t tokens_ = 0;
  std::vector<int64_t> before_;  // tokens before position 64·i of the order; 1/8 byte per sequence
};

// An endless sequence of samples: n of each epoch, then those of the next epoch. Not thread safe.
class SampleOrder {
 public:
  // Throws Error if the range has fewer than sequence_length + 1 tokens.
  SampleOrder(const IndexedDataset& data, SequenceRange range, int64_t sequence_length,
              uint64_t seed);

  int64_t samples_per_epoch() const { return per_epoch_; }
  int64_t tokens() const { return tokens_; }  // tokens of the range

  void read(int64_t sample, std::span<int32_t> out);  // [T + 1]
  std::vector<SamplePiece> pieces(int64_t sample);

 private:
  struct Epoch {
    int64_t number;
    PackedStream stream;
    Permutation samples;
  };
  Epoch& epoch(int64_t number);  // keeps this one and the last one used before it
  void visit(int64_t sample, const std::function<void(const SamplePiece&)>& piece);

  const IndexedDataset& data_;
  SequenceRange range_;
  int64_t sequence_length_, per_epoch_ = 0, tokens_ = 0;
  uint64_t seed_;
  std::unique_ptr<Epoch> current_, other_;
};

}  // namespace tessera::data
