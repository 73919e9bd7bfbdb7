// Reads and checks a dataset in Megatron-LM's indexed format, version 1.
//
//   .bin  the token ids of all sequences, back to back
//   .idx  bytes 0-8 "MMIDIDX\0\0", u64 version, u8 type code, u64 sequences S, u64 entries E,
//         i32[S] lengths in tokens, i64[S] offsets in the .bin in bytes, i64[E] first sequence of
//         each document (the last entry is S)
//
// All numbers are little-endian. The constructor checks and hashes the whole index, so later reads
// trust it. A file that changes while it is used is detected by range checks and by
// require_unchanged().
#include "data/indexed_dataset.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/encode_cache.h"

namespace tessera::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr char kOldMagic[8] = {'T', 'N', 'T', 'I', 'D', 'X', 0, 0};
constexpr uint64_t kVersion = 1;
constexpr size_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kStartsAt = 26;
constexpr int64_t kHeader = 34;
constexpr int64_t kLengthBytes = 4, kOffsetBytes = 8;
constexpr int64_t kStride = 64;  // sequences between two known first tokens
constexpr const char* kRebuild = "Build it again with   tessera data build …   or copy it again";

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The type codes of Megatron's DType enumeration; floating-point types cannot be token ids.
std::optional<DType> dtype_of(uint8_t code) {
  switch (code) {
    case 1:
      return DType::kU8;
    case 4:
      return DType::kI32;
    case 5:
      return DType::kI64;
    case 8:
      return DType::kU16;
    default:
      return std::nullopt;
  }
}

Path with_suffix(Path prefix, const char* suffix) {
  prefix += suffix;
  return prefix;
}

template <class T>
T load_at(const DataFile& file, int64_t byte) {
  T value;
  file.read(byte, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

// Reads `count` values that start at a byte of the file, in blocks, and calls use(index of the
// first value, values) for each block.
template <class T, class F>
void visit_blocks(const DataFile& file, int64_t byte, int64_t count, F use) {
  constexpr int64_t kBlockBytes = int64_t{1} << 18, kBytes = sizeof(T);
  const int64_t most = kBlockBytes / kBytes;
  std::vector<T> block(std::min(count, most));
  for (int64_t first = 0; first < count; first += most) {
    const auto values = std::span(block).first(std::min(most, count - first));
    file.read(byte + first * kBytes, std::as_writable_bytes(values));
    use(first, std::span<const T>(values));
  }
}

uint64_t hash_of(std::span<const std::byte> bytes) {
  return hash_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

uint64_t chained(uint64_t a, uint64_t b) {
  const uint64_t both[] = {a, b};
  return hash_of(std::as_bytes(std::span(both)));
}

template <class T>
void widen(const DataFile& file, int64_t from, std::span<int32_t> out) {
  constexpr int64_t kBytes = sizeof(T);
  std::array<T, 4096> block;
  while (!out.empty()) {
    const size_t n = std::min(out.size(), block.size());
    file.read(from * kBytes, std::as_writable_bytes(std::span(block).first(n)));
    for (size_t i = 0; i < n; ++i) {
      // An id that does not fit an int32 fits no vocabulary. −1 is rejected where ids are checked.
      const T id = block[i];
      out[i] = std::in_range<int32_t>(id) ? static_cast<int32_t>(id) : -1;
    }
    from += n;
    out = out.subspan(n);
  }
}

Path existing(const Path& prefix, const char* suffix) {
  Path path = with_suffix(prefix, suffix);
  if (!std::filesystem::exists(path))
    throw Error(
        "{}: cannot be opened: No such file or directory. Expected the --out of a `tessera data "
        "build`, without .idx or .bin",
        path.string());
  return path;
}

}  // namespace

DType dtype_for_vocabulary(int64_t vocabulary) {
  constexpr int64_t kMegatronsLimit = 65500;
  return vocabulary < kMegatronsLimit ? DType::kU16 : DType::kI32;
}

IndexedDataset::IndexedDataset(const Path& prefix, int64_t held_sequences)
    : prefix_(prefix), index_(existing(prefix, ".idx")), data_(existing(prefix, ".bin")) {
  check_header();
  check_sequences(held_sequences);
  check_documents();
  data_hash_ = hash_data();
}

std::string IndexedDataset::identity() const {
  return fmt::format("{} tokens in {} documents, {}, hash {:016x}", tokens_, documents_,
                     name_of(dtype_), chained(index_hash_, data_hash_));
}

// Hashes a small file as a whole, and evenly spaced blocks of a large one, since reading all of it
// could mean terabytes at every start. Each block is hashed with its position, so moved content
// changes the hash.
uint64_t IndexedDataset::hash_data() const {
  constexpr int64_t kWhole = int64_t{8} << 20, kBlocks = 64, kBlock = int64_t{16} << 10;
  uint64_t hash = 0;
  const auto add = [&](int64_t first, std::span<const std::byte> bytes) {
    hash = chained(chained(hash, first), hash_of(bytes));
  };
  const int64_t size = data_.size();
  if (size <= kWhole) {
    visit_blocks<std::byte>(data_, 0, size, add);
    return hash;
  }
  for (int64_t b = 0; b + 1 < kBlocks; ++b)
    visit_blocks<std::byte>(data_, b * ((size - kBlock) / (kBlocks - 1)), kBlock, add);
  visit_blocks<std::byte>(data_, size - kBlock, kBlock, add);
  return hash;
}

void IndexedDataset::index_changed() const {
  throw Error(
      "{}: was changed while in use: its content differs from that at opening. Restore it and run "
      "the same command to resume",
      index_name());
}

void IndexedDataset::check_header() {
  if (index_.size() < kHeader) {
    throw Error("{}: has {} bytes, fewer than the {} of its header. It was probably truncated. {}",
                index_name(), index_.size(), kHeader, kRebuild);
  }
  std::array<std::byte, kHeader> bytes;
  index_.read(0, bytes);
  index_hash_ = hash_of(bytes);
  if (std::memcmp(bytes.data(), kOldMagic, sizeof kOldMagic) == 0) {
    throw Error("{}: is in the old format of fairseq ('TNTIDX'), expected 'MMIDIDX'. {}",
                index_name(), kRebuild);
  }
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    throw Error("{}: does not start with 'MMIDIDX', so it is not the index of a dataset. {}",
                index_name(), kRebuild);
  }
  const auto version = load<uint64_t>(&bytes[kVersionAt]);
  if (version != kVersion) {
    throw Error("{}: byte {}: version {}, expected 1", index_name(), kVersionAt, version);
  }
  const auto code = load<uint8_t>(&bytes[kTypeAt]);
  const auto type = dtype_of(code);
  if (!type) {
    throw Error(
        "{}: byte {}: type code {}, expected one for token ids: 1 (u8), 4 (i32), 5 (i64) or "
        "8 (u16). {}",
        index_name(), kTypeAt, code, kRebuild);
  }
  dtype_ = *type;
}

void IndexedDataset::check_sequences(int64_t held_sequences) {
  std::array<std::byte, kHeader> bytes;
  index_.read(0, bytes);
  const int64_t size = index_.size();
  const auto sequences = load<uint64_t>(&bytes[kSequencesAt]);
  const auto starts = load<uint64_t>(&bytes[kStartsAt]);
  // Both counts are bounded by the file's size before they are multiplied, so a damaged header
  // cannot overflow the sum.
  const auto most = static_cast<uint64_t>(size) / 4;
  const int64_t room = size - kHeader;
  int64_t needed = -1;
  if (sequences <= most && starts <= most) {
    needed = static_cast<int64_t>(sequences) * (kLengthBytes + kOffsetBytes) +
             static_cast<int64_t>(starts) * kOffsetBytes;
  }
  if (needed < 0 || needed > room) {
    throw Error(
        "{}: the header has {} sequences and {} document entries, which need more than the {} "
        "bytes of the file. It was probably truncated while being copied; the .bin may be intact. "
        "{}",
        index_name(), sequences, starts, size, kRebuild);
  }
  if (needed < room) {
    throw Error(
        "{}: {} bytes follow the content that the header describes (byte {}). The file is damaged, "
        "or it is a dataset with modes (images and text), which is not supported. {}",
        index_name(), room - needed, size - (room - needed), kRebuild);
  }
  sequences_ = sequences;
  documents_ = starts - 1;
  lengths_at_ = kHeader;
  offsets_at_ = lengths_at_ + sequences_ * kLengthBytes;
  starts_at_ = offsets_at_ + sequences_ * kOffsetBytes;

  const bool holds = sequences_ <= held_sequences;
  if (holds) {
    lengths_.reserve(sequences_);
    before_.reserve(sequences_ / kStride + 1);
    before_.push_back(0);
  }
  int64_t expected = 0;  // sequences are contiguous, as every writer of the format stores them
  std::vector<int64_t> offsets;
  visit_blocks<int32_t>(
      index_, lengths_at_, sequences_, [&](int64_t first, std::span<const int32_t> lengths) {
        offsets.resize(lengths.size());
        index_.read(offsets_at_ + first * kOffsetBytes, std::as_writable_bytes(std::span(offsets)));
        check_lengths(first, lengths, offsets, expected);
        index_hash_ = chained(index_hash_, hash_of(std::as_bytes(lengths)));
        if (holds) lengths_.insert(lengths_.end(), lengths.begin(), lengths.end());
      });
  tokens_ = expected / size_of(dtype_);
  if (data_.size() == expected) return;
  throw Error("{}: has {} bytes, but {} describes {}. {} {}", data_name(), data_.size(),
              index_name(), expected,
              data_.size() < expected ? "It was probably truncated while being copied."
                                      : "The two files do not match, or their writer was killed.",
              kRebuild);
}

// Checks one block of lengths and offsets. `expected` is the byte of the .bin where the next
// sequence starts; it equals the sum of the lengths so far.
void IndexedDataset::check_lengths(int64_t first, std::span<const int32_t> lengths,
                                   std::span<const int64_t> offsets, int64_t& expected) {
  const int64_t item = size_of(dtype_);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t s = first + i;
    if (lengths[i] < 0) {
      throw Error("{}: byte {}: sequence {} has length {}, expected 0 or more. {}", index_name(),
                  lengths_at_ + s * kLengthBytes, s, lengths[i], kRebuild);
    }
    if (offsets[i] != expected) {
      throw Error(
          "{}: byte {}: sequence {} starts at byte {} of the .bin, expected {}, the sum of the "
          "lengths before it. {}",
          index_name(), offsets_at_ + s * kOffsetBytes, s, offsets[i], expected, kRebuild);
    }
    expected += lengths[i] * item;
    if (held() && (s + 1) % kStride == 0) before_.push_back(expected / item);
  }
}

void IndexedDataset::check_documents() {
  if (documents_ < 0) {
    throw Error("{}: has no document entries, expected at least one, which is 0. {}", index_name(),
                kRebuild);
  }
  // Entries must ascend from 0 to the number of sequences.
  int64_t before = 0;
  const auto check = [&](int64_t d, int64_t start) {
    const bool last_is_wrong = d == documents_ && start != sequences_;
    if (start < before || start > sequences_ || (d == 0 && start != 0) || last_is_wrong) {
      throw Error("{}: byte {}: document entry {} is {}, expected {}. {}", index_name(),
                  starts_at_ + d * kOffsetBytes, d, start,
                  d == 0          ? std::string("0")
                  : last_is_wrong ? fmt::format("{}, the number of sequences", sequences_)
                                  : fmt::format("{} to {}", before, sequences_),
                  kRebuild);
    }
    before = start;
  };
  visit_blocks<int64_t>(index_, starts_at_, documents_ + 1,
                        [&](int64_t first, std::span<const int64_t> starts) {
                          for (size_t i = 0; i < starts.size(); ++i) check(first + i, starts[i]);
                          index_hash_ = chained(index_hash_, hash_of(std::as_bytes(starts)));
                        });
}

int64_t IndexedDataset::length(int64_t s) const {
  CHECK(s >= 0 && s < sequences_, "sequence {} of {}", s, sequences_);
  if (held()) return lengths_[s];
  const auto n = load_at<int32_t>(index_, lengths_at_ + s * kLengthBytes);
  // The file was valid when it was opened, so a wrong value means that it has changed since.
  if (n < 0) index_changed();
  return n;
}

int64_t IndexedDataset::first_token(int64_t s) const {
  if (s == sequences_) return tokens_;
  CHECK(s >= 0 && s < sequences_, "sequence {} of {}", s, sequences_);
  if (!held()) {
    const int64_t first =
        load_at<int64_t>(index_, offsets_at_ + s * kOffsetBytes) / size_of(dtype_);
    if (first < 0 || first > tokens_) index_changed();
    return first;
  }
  // Adds at most 63 lengths to a stored prefix sum. Sums are stored for every 64th sequence, which
  // needs 1/64 of the memory of a full table of offsets.
  int64_t first = before_[s / kStride];
  for (int64_t i = s / kStride * kStride; i < s; ++i) first += lengths_[i];
  return first;
}

int64_t IndexedDataset::first_sequence(int64_t d) const {
  CHECK(d >= 0 && d <= documents_, "document {} of {}", d, documents_);
  const auto s = load_at<int64_t>(index_, starts_at_ + d * kOffsetBytes);
  if (s < 0 || s > sequences_) index_changed();
  return s;
}

void IndexedDataset::visit_lengths(
    int64_t begin, int64_t end,
    const std::function<void(int64_t first, std::span<const int32_t> lengths)>& block) const {
  CHECK(begin >= 0 && begin <= end && end <= sequences_, "sequences {} to {} of {}", begin, end,
        sequences_);
  const auto count = end - begin;
  if (held()) return block(begin, std::span(lengths_).subspan(begin, count));
  visit_blocks<int32_t>(index_, lengths_at_ + begin * kLengthBytes, count,
                        [&](int64_t first, std::span<const int32_t> lengths) {
                          for (const int32_t n : lengths)
                            if (n < 0) index_changed();
                          block(begin + first, lengths);
                        });
}

int64_t IndexedDataset::sequence_of(int64_t token) const {
  CHECK(token >= 0 && token < tokens_, "token {} of {}", token, tokens_);
  int64_t low = 0, high = sequences_;  // the last sequence that starts at or before the token
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (first_token(middle) <= token ? low : high) = middle;
  }
  return low;
}

void IndexedDataset::read(int64_t from, std::span<int32_t> out) const {
  // An index that is not held in memory is read when it is needed, so a wrong range means that the
  // file has changed. With an index in memory, it is a bug of the caller.
  const bool inside = from >= 0 && from + std::ssize(out) <= tokens_;
  if (!inside && !held()) index_changed();
  CHECK(inside, "tokens {} to {} of {}", from, from + std::ssize(out), tokens_);
  switch (dtype_) {
    case DType::kU8:
      widen<uint8_t>(data_, from, out);
      break;
    case DType::kU16:
      widen<uint16_t>(data_, from, out);
      break;
    case DType::kI64:
      widen<int64_t>(data_, from, out);
      break;
    default:
      widen<int32_t>(data_, from, out);
      break;
  }
}

void IndexedDataset::require_unchanged() const {
  // Touching a file changes its modification time but not its content, so the content is compared.
  if (!data_.changed()) return;
  data_.accept_change();
  if (data_.size() == tokens_ * size_of(dtype_) && hash_data() == data_hash_) return;
  throw Error(
      "{}: was changed while in use: its content differs from that at opening. Restore it and run "
      "the same command to resume",
      data_name());
}

}  // namespace tessera::data
