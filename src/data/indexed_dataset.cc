#include "data/indexed_dataset.h"

#include <bit>
#include <cstring>
#include <optional>

#include "base/error.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr char kOldMagic[8] = {'T', 'N', 'T', 'I', 'D', 'X', 0, 0};
constexpr uint64_t kVersion = 1;
constexpr size_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kStartsAt = 26, kHeader = 34;
constexpr int64_t kLengthBytes = 4, kOffsetBytes = 8;
constexpr const char* kRebuild = "Build it again with   tessera data build …   or copy it again";

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

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
void widen(const std::byte* from, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const T id = load<T>(from + i * sizeof(T));
    // An id that fits no int32 fits no vocabulary either; −1 is refused where ids are checked.
    out[i] = std::in_range<int32_t>(id) ? static_cast<int32_t>(id) : -1;
  }
}

Path existing(const Path& prefix, const char* suffix) {
  Path path = with_suffix(prefix, suffix);
  if (!std::filesystem::exists(path))
    throw Error(
        "{}: cannot be opened: No such file or directory. Wanted the --out of a `tessera data "
        "build`, without .idx or .bin",
        path.string());
  return path;
}

}  // namespace

DType dtype_for_vocabulary(int64_t vocabulary) {
  constexpr int64_t kMegatronsLimit = 65500;
  return vocabulary < kMegatronsLimit ? DType::kU16 : DType::kI32;
}

IndexedDataset::IndexedDataset(const Path& prefix)
    : prefix_(prefix), index_(existing(prefix, ".idx")), data_(existing(prefix, ".bin")) {
  check_header();
  check_sequences();
  check_documents();
}

std::string IndexedDataset::index_name() const { return index_.path().string(); }
std::string IndexedDataset::data_name() const { return data_.path().string(); }

void IndexedDataset::check_header() {
  const auto bytes = index_.bytes();
  if (bytes.size() < kHeader) {
    throw Error("{}: holds {} bytes, fewer than the {} of its header. It was probably cut off. {}",
                index_name(), bytes.size(), kHeader, kRebuild);
  }
  if (std::memcmp(bytes.data(), kOldMagic, sizeof kOldMagic) == 0) {
    throw Error("{}: is in the old format of fairseq ('TNTIDX'), wanted 'MMIDIDX'. {}",
                index_name(), kRebuild);
  }
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    throw Error("{}: does not start with 'MMIDIDX', so it is no index of a dataset. {}",
                index_name(), kRebuild);
  }
  const auto version = load<uint64_t>(&bytes[kVersionAt]);
  if (version != kVersion) {
    throw Error("{}: byte {}: version {}, wanted 1", index_name(), kVersionAt, version);
  }
  const auto code = load<uint8_t>(&bytes[kTypeAt]);
  const auto type = dtype_of(code);
  if (!type) {
    throw Error(
        "{}: byte {}: type code {}, wanted one for token ids: 1 (u8), 4 (i32), 5 (i64) or "
        "8 (u16). {}",
        index_name(), kTypeAt, code, kRebuild);
  }
  dtype_ = *type;
}

void IndexedDataset::check_sequences() {
  const auto bytes = index_.bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  const auto sequences = load<uint64_t>(&bytes[kSequencesAt]);
  const auto starts = load<uint64_t>(&bytes[kStartsAt]);
  // Both are bounded by the file before they are multiplied: a lying header must not overflow.
  const uint64_t most = bytes.size() / 4;
  const int64_t room = size - static_cast<int64_t>(kHeader);
  int64_t wanted = -1;
  if (sequences <= most && starts <= most) {
    wanted = static_cast<int64_t>(sequences) * (kLengthBytes + kOffsetBytes) +
             static_cast<int64_t>(starts) * kOffsetBytes;
  }
  if (wanted < 0 || wanted > room) {
    throw Error(
        "{}: says {} sequences and {} document entries, which take more than the {} bytes "
        "of the file. It was probably cut off while being copied; the .bin may be whole. {}",
        index_name(), sequences, starts, size, kRebuild);
  }
  if (wanted < room) {
    throw Error(
        "{}: {} bytes follow after what the header describes (byte {}). A dataset with modes "
        "(images and text) is not supported; else the file is damaged. {}",
        index_name(), room - wanted, size - (room - wanted), kRebuild);
  }
  sequences_ = static_cast<int64_t>(sequences);
  documents_ = static_cast<int64_t>(starts) - 1;
  lengths_ = bytes.data() + kHeader;
  offsets_ = lengths_ + sequences_ * kLengthBytes;
  starts_ = offsets_ + sequences_ * kOffsetBytes;

  const int64_t item = size_of(dtype_);
  int64_t expected = 0;  // sequences stand back to back, as every writer of the format puts them
  for (int64_t s = 0; s < sequences_; ++s) {
    const auto n = load<int32_t>(lengths_ + s * kLengthBytes);
    const auto offset = load<int64_t>(offsets_ + s * kOffsetBytes);
    if (n < 0) {
      throw Error("{}: byte {}: sequence {} has length {}, wanted 0 or more. {}", index_name(),
                  lengths_ - bytes.data() + s * kLengthBytes, s, n, kRebuild);
    }
    if (offset != expected) {
      throw Error(
          "{}: byte {}: sequence {} starts at byte {} of the .bin, but the lengths before it "
          "add up to {}. {}",
          index_name(), offsets_ - bytes.data() + s * kOffsetBytes, s, offset, expected, kRebuild);
    }
    expected += n * item;
  }
  const auto held = static_cast<int64_t>(data_.bytes().size());
  if (held != expected) {
    throw Error("{}: holds {} bytes, but {} describes {}. {} {}", data_name(), held, index_name(),
                expected,
                held < expected ? "It was probably cut off while being copied."
                                : "The two files do not belong together, or a writer died.",
                kRebuild);
  }
  tokens_ = expected / item;
}

void IndexedDataset::check_documents() {
  if (documents_ < 0) {
    throw Error("{}: has no document entries, wanted at least the first, 0. {}", index_name(),
                kRebuild);
  }
  int64_t before = 0;
  for (int64_t d = 0; d <= documents_; ++d) {
    const auto start = load<int64_t>(starts_ + d * kOffsetBytes);
    const bool last_is_wrong = d == documents_ && start != sequences_;
    if (start < before || start > sequences_ || (d == 0 && start != 0) || last_is_wrong) {
      throw Error("{}: byte {}: document entry {} is {}, wanted {}. {}", index_name(),
                  starts_ - index_.bytes().data() + d * kOffsetBytes, d, start,
                  d == 0          ? std::string("0")
                  : last_is_wrong ? fmt::format("{}, the number of sequences", sequences_)
                                  : fmt::format("{} to {}", before, sequences_),
                  kRebuild);
    }
    before = start;
  }
}

int64_t IndexedDataset::length(int64_t s) const {
  CHECK(s >= 0 && s < sequences_, "sequence {} of {}", s, sequences_);
  return load<int32_t>(lengths_ + s * kLengthBytes);
}

int64_t IndexedDataset::first_token(int64_t s) const {
  if (s == sequences_) return tokens_;
  CHECK(s >= 0 && s < sequences_, "sequence {} of {}", s, sequences_);
  return load<int64_t>(offsets_ + s * kOffsetBytes) / size_of(dtype_);
}

int64_t IndexedDataset::first_sequence(int64_t d) const {
  CHECK(d >= 0 && d <= documents_, "document {} of {}", d, documents_);
  return load<int64_t>(starts_ + d * kOffsetBytes);
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
  CHECK(from >= 0 && from + static_cast<int64_t>(out.size()) <= tokens_, "tokens {} to {} of {}",
        from, from + static_cast<int64_t>(out.size()), tokens_);
  const std::byte* at = data_.bytes().data() + from * size_of(dtype_);
  switch (dtype_) {
    case DType::kU8:
      return widen<uint8_t>(at, out);
    case DType::kU16:
      return widen<uint16_t>(at, out);
    case DType::kI64:
      return widen<int64_t>(at, out);
    default:
      return widen<int32_t>(at, out);
  }
}

}  // namespace tessera
