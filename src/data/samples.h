// The order in which a dataset's tokens are read: documents end to end, cut into samples.
//
// In each epoch the documents stand one behind the other in a random order, and the stream of
// their N tokens is cut: sample i holds tokens [i·T, i·T + T], T + 1 of them, the last of which is
// the first of sample i + 1 (as in Megatron), so each token is predicted once. That gives
// n = ⌊(N − 1) / T⌋ samples; the fewer than T tokens behind them stand elsewhere in the next epoch.
// The samples come in a random order too. Both orders are pure functions of (seed, epoch).
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

// ---- A random order of n things that is never written down: any place of it can be asked for.

// A Feistel network on pairs (left, right) with left < A and right < B, A·B ≥ n, A ≈ B ≈ √n:
//   left  = (left  + F_k(right)) mod A      right = (right + F_k(left)) mod B      four times each
// F_k mixes with a round key that Philox draws from `key`. Each round can be undone, so the whole
// is a bijection of [0, A·B); a result that is n or more is put in again until one is below n
// ("cycle walking"; A·B − n < A, so that is rare), which leaves a bijection of [0, n).
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

// Part `part` of "969,30,1": shares of the sequences, normalised, cumulative, rounded half to even,
// as Megatron-Core cuts a dataset into train, validation and test. Throws Error for a split that is
// no list of one to three numbers ≥ 0 or has a sum of 0. An empty split is the whole as part 0.
SequenceRange split_range(std::string_view split, int part, int64_t sequences);

// Tokens [from, from + count) of one sequence: part of a sample.
struct SamplePiece {
  int64_t sequence = 0, from = 0, count = 0;
};

// The sequences of a range in a random order, end to end.
class PackedStream {
 public:
  PackedStream(const IndexedDataset& data, SequenceRange range, uint64_t key);

  int64_t tokens() const { return tokens_; }
  // The pieces that tokens [from, from + count) of the stream are made of, in order.
  void visit(int64_t from, int64_t count,
             const std::function<void(const SamplePiece&)>& piece) const;

 private:
  const IndexedDataset& data_;
  SequenceRange range_;
  Permutation order_;
  int64_t tokens_ = 0;
  std::vector<int64_t> before_;  // tokens before place 64·i of the order; an eighth of a byte each
};

// Samples without end: n of each epoch, then the next epoch's. Not for several threads at once.
class SampleOrder {
 public:
  // Throws Error if the range holds fewer than sequence_length + 1 tokens.
  SampleOrder(const IndexedDataset& data, SequenceRange range, int64_t sequence_length,
              uint64_t seed);

  int64_t samples_per_epoch() const { return per_epoch_; }
  int64_t tokens() const { return tokens_; }  // of the range

  void read(int64_t sample, std::span<int32_t> out);  // [T + 1]
  std::vector<SamplePiece> pieces(int64_t sample);

 private:
  struct Epoch {
    int64_t number;
    PackedStream stream;
    Permutation samples;
  };
  Epoch& epoch(int64_t number);  // this one and the one before it are kept
  void visit(int64_t sample, const std::function<void(const SamplePiece&)>& piece);

  const IndexedDataset& data_;
  SequenceRange range_;
  int64_t sequence_length_, per_epoch_ = 0, tokens_ = 0;
  uint64_t seed_;
  std::unique_ptr<Epoch> current_, other_;
};

}  // namespace tessera::data
