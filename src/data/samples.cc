// The order of samples in an epoch: two pseudorandom permutations, one of the sequences and one of
// the samples, both keyed by (seed, epoch). The only stored data that grows with the dataset is one
// prefix sum of lengths per 64 sequences, which also detects an index that was changed in the
// meantime.
#include "data/samples.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/philox.h"

namespace tessera::data {
namespace {

constexpr int64_t kStride = 64;  // distance between two stored prefix sums of PackedStream

uint64_t order_key(std::string_view what, uint64_t seed, int64_t epoch) {
  return Philox{hash_name(what, seed)}.word(epoch);
}

std::array<double, 3> parse_split(std::string_view split) {
  const auto refuse = [&](const char* why) {
    throw Error("split '{}': {}. Expected shares of train, validation and test, as in 969,30,1",
                split, why);
  };
  std::array<double, 3> shares{};
  size_t parts = 0;
  for (std::string_view rest = split;;) {
    const size_t comma = rest.find(',');
    std::string_view one = rest.substr(0, comma);
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (parts == shares.size()) refuse("more than three parts");
    double& share = shares[parts++];
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), share);
    if (error != std::errc{} || end != one.data() + one.size()) refuse("a share is not a number");
    if (!(share >= 0) || !std::isfinite(share)) refuse("a share is negative or infinite");
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (shares[0] + shares[1] + shares[2] <= 0) refuse("all shares are 0");
  return shares;
}

}  // namespace

SequenceRange split_range(std::string_view split, int part, int64_t sequences) {
  CHECK(part >= 0 && part < 3, "part {} of a split", part);
  if (split.empty()) split = "1";
  const std::array<double, 3> shares = parse_split(split);
  const double sum = shares[0] + shares[1] + shares[2];
  double begin = 0;
  for (int i = 0; i < part; ++i) begin += shares[i] / sum;
  const double end = begin + shares[part] / sum;
  // llrint rounds halves to even, as Python's round() does in Megatron.
  const auto cut = [&](double share) {
    return std::clamp<int64_t>(std::llrint(share * static_cast<double>(sequences)), 0, sequences);
  };
  return {cut(begin), cut(end)};
}

PackedStream::PackedStream(const IndexedDataset& data, SequenceRange range, uint64_t key)
    : data_(data), range_(range), order_(key, range.size()) {
  // The lengths are read in file order, and each is added to the block of its sequence in the
  // random order (by the inverse permutation). This reads the index once, sequentially. Reading the
  // lengths in the random order would need one random access per sequence.
  before_.assign((range.size() + kStride - 1) / kStride, 0);
  data.visit_lengths(range.begin, range.end, [&](int64_t first, std::span<const int32_t> lengths) {
    for (size_t i = 0; i < lengths.size(); ++i) {
      const int64_t place = order_.place_of(first + i - range_.begin);
      before_[place / kStride] += lengths[i];
    }
  });
  // Converts the sums of the blocks to prefix sums, and stores the total in tokens_.
  for (int64_t& sum : before_) tokens_ += std::exchange(sum, tokens_);
}

void PackedStream::visit(int64_t from, int64_t count,
                         const std::function<void(const SamplePiece&)>& piece) const {
  CHECK(from >= 0 && from + count <= tokens_, "tokens {} to {} of {}", from, from + count, tokens_);
  // Bisects the prefix sums, then walks at most 64 sequences to the first token.
  const auto known = std::upper_bound(before_.begin(), before_.end(), from) - 1;
  int64_t place = (known - before_.begin()) * kStride, start = *known;
  while (count > 0) {
    // If the lengths that are read now do not add up to the stored sums, the index was changed.
    if (place == range_.size() || (place % kStride == 0 && before_[place / kStride] != start))
      data_.index_changed();
    const int64_t sequence = range_.begin + order_(place++), length = data_.length(sequence);
    const int64_t skipped = from - start, taken = std::min(length - skipped, count);
    if (taken > 0) {
      piece({sequence, skipped, taken});
      from += taken;
      count -= taken;
    }
    start += length;
  }
}

SampleOrder::SampleOrder(const IndexedDataset& data, SequenceRange range, int64_t sequence_length,
                         uint64_t seed)
    : data_(data), range_(range), sequence_length_(sequence_length), seed_(seed) {
  CHECK(sequence_length > 0, "samples of {} tokens", sequence_length);
  tokens_ = data.first_token(range.end) - data.first_token(range.begin);
  // Minus 1: the last token of a sample is only a label, and the next sample begins with it.
  per_epoch_ = (tokens_ - 1) / sequence_length;
  if (tokens_ == 0 || per_epoch_ == 0) {
    throw Error(
        "{}: {} documents with {} tokens are too few for a sample of {} + 1 tokens. Use a longer "
        "text, another data.split or a smaller data.sequence_length{}",
        data.data_name(), range.size(), tokens_, sequence_length,
        range.size() == data.sequences()
            ? ""
            : fmt::format(
                  ". data.split divides by documents, of which there {} here: a plain text "
                  "file is one document unless `tessera data build --split paragraphs` divides it",
                  data.sequences() == 1 ? "is one" : fmt::format("are {}", data.sequences())));
  }
}

SampleOrder::Epoch& SampleOrder::epoch(int64_t number) {
  // Near the end of an epoch, requests alternate between two epochs, so both are kept.
  if (!current_ || current_->number != number) std::swap(current_, other_);
  if (!current_ || current_->number != number) {
    std::unique_ptr<Epoch> made(
        new Epoch{number, PackedStream(data_, range_, order_key("documents", seed_, number)),
                  Permutation(order_key("samples", seed_, number), per_epoch_)});
    if (made->stream.tokens() != tokens_) data_.index_changed();
    current_ = std::move(made);
  }
  return *current_;
}

void SampleOrder::visit(int64_t sample, const std::function<void(const SamplePiece&)>& piece) {
  CHECK(sample >= 0, "sample {}", sample);
  const Epoch& e = epoch(sample / per_epoch_);
  // One token more than T: the last one is only a label here and the first token of the next
  // sample.
  e.stream.visit(e.samples(sample % per_epoch_) * sequence_length_, sequence_length_ + 1, piece);
}

void SampleOrder::read(int64_t sample, std::span<int32_t> out) {
  CHECK(std::ssize(out) == sequence_length_ + 1, "a sample in {} tokens", out.size());
  visit(sample, [&](const SamplePiece& p) {
    const size_t n = p.count;
    data_.read(data_.first_token(p.sequence) + p.from, out.first(n));
    out = out.subspan(n);
  });
  data_.require_unchanged();
}

std::vector<SamplePiece> SampleOrder::pieces(int64_t sample) {
  std::vector<SamplePiece> pieces;
  visit(sample, [&](const SamplePiece& p) { pieces.push_back(p); });
  return pieces;
}

// ---- A pseudorandom permutation of [0, n) computed per element: a Feistel network over Z_A x Z_B
// with cycle walking (Black & Rogaway 2002, "Ciphers with arbitrary finite domains"). The order
// needs no memory, even for billions of samples, and the inverse is computed by the same rounds in
// reverse.

namespace {

// The finalizer of splitmix64 (Steele, Lea & Flood 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Maps the upper 32 bits of x, as a fraction of 2^32, to [0, range). Ranges are about √n, far below
// 2^32, so the bias is negligible.
uint64_t scale(uint64_t x, uint64_t range) { return ((x >> 32) * range) >> 32; }

}  // namespace

Permutation::Permutation(uint64_t key, int64_t n) : n_(n) {
  constexpr int64_t kMost = int64_t{1} << 60;  // keeps both sides below 2^31
  CHECK(n >= 0 && n < kMost, "a permutation of {} things", n);
  left_ = std::llrint(std::floor(std::sqrt(n_)));
  // The root of a large n may round down.
  while (left_ * left_ < n_) ++left_;
  right_ = left_ == 0 ? 0 : (n_ + left_ - 1) / left_;
  const Philox random{key};
  for (int r = 0; r < kRounds; ++r) {
    keys_[r] = random.word(r);
  }
}

int64_t Permutation::operator()(int64_t i) const {
  CHECK(i >= 0 && i < size(), "place {} of {}", i, n_);
  uint64_t x = i;
  // Results in [n, A·B) go through the network again. There are fewer than A such values, so nearly
  // all calls need one pass. Since the network is a bijection of a finite set, the loop terminates.
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
  return x;
}

int64_t Permutation::place_of(int64_t to) const {
  CHECK(to >= 0 && to < size(), "{} of {}", to, n_);
  uint64_t x = to;
  do {
    uint64_t a = x / right_, b = x % right_;
    // Inverts the rounds in reverse order. Unsigned arithmetic wraps to the correct difference.
    for (size_t r = kRounds; r > 0; r -= 2) {
      const uint64_t from_a = scale(mix(a + keys_[r - 1]), right_);
      b += b < from_a ? right_ - from_a : -from_a;
      const uint64_t from_b = scale(mix(b + keys_[r - 2]), left_);
      a += a < from_b ? left_ - from_b : -from_b;
    }
    x = a * right_ + b;
  } while (x >= n_);
  return x;
}

}  // namespace tessera::data
