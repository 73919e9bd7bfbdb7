// The encodings of https://github.com/apache/parquet-format/blob/master/Encodings.md that writers
// use for texts, numbers and flags.
#include "data/parquet_values.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace tessera::data {
namespace {

constexpr const char* kEnds = "a page ends before its last value";

template <class T>
T little_endian(std::string_view bytes, size_t at) {
  static_assert(std::endian::native == std::endian::little);
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) throw Error("{}", kEnds);
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

uint64_t varint(std::string_view bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at >= bytes.size()) throw Error("{}", kEnds);
    const auto b = static_cast<uint8_t>(bytes[at++]);
    value |= static_cast<uint64_t>(b & 0x7F) << shift;
    if ((b & 0x80) == 0) return value;
  }
  throw Error("an integer of a page has more than 64 bits");
}

// Returns `width` bits from bit `first` on, least significant bit first. Bits past the end are 0.
uint64_t bits_at(std::string_view bytes, uint64_t first, int width) {
  uint64_t value = 0;
  for (int have = 0; have < width;) {
    const uint64_t byte = (first + static_cast<uint64_t>(have)) / 8;
    const int shift = static_cast<int>((first + static_cast<uint64_t>(have)) % 8);
    const int take = std::min(8 - shift, width - have);
    const uint64_t b = byte < bytes.size() ? static_cast<uint8_t>(bytes[byte]) : 0U;
    value |= ((b >> shift) & ((1U << take) - 1U)) << have;
    have += take;
  }
  return value;
}

}  // namespace

HybridReader::HybridReader(std::string_view bytes, int width) : bytes_(bytes), width_(width) {
  if (width < 0 || width > 32)
    throw Error("a page has indices of {} bits, expected 0 to 32", width);
}

void HybridReader::next_run() {
  const uint64_t head = varint(bytes_, at_);
  packed_ = (head & 1) != 0;
  const auto bytes_of_value = static_cast<size_t>((width_ + 7) / 8);
  if (!packed_) {
    left_ = head >> 1;
    if (bytes_.size() - at_ < bytes_of_value) throw Error("{}", kEnds);
    value_ = static_cast<uint32_t>(bits_at(bytes_.substr(at_, bytes_of_value), 0, width_));
    at_ += bytes_of_value;
    return;
  }
  const uint64_t groups = head >> 1;  // groups of 8 values, each of `width` bytes
  const uint64_t held = bytes_.size() - at_;
  run_ = at_;
  next_bit_ = 0;
  left_ = std::min(groups, uint64_t{1} << 40) * 8;
  if (width_ == 0) return;
  const auto width = static_cast<uint64_t>(width_);
  left_ = std::min(left_, held * 8 / width);  // the last group may be cut short
  at_ += std::min(held, (left_ * width + 7) / 8);
}

uint32_t HybridReader::next() {
  while (left_ == 0) {
    if (at_ >= bytes_.size()) throw Error("{}", kEnds);
    next_run();
  }
  --left_;
  if (!packed_) return value_;
  const auto value = static_cast<uint32_t>(bits_at(bytes_.substr(run_), next_bit_, width_));
  next_bit_ += static_cast<uint64_t>(width_);
  return value;
}

namespace {

// PLAIN.
class PlainValues final : public PageValues {
 public:
  PlainValues(ParquetType type, std::string_view bytes) : type_(type), bytes_(bytes) {}

  ParquetValue next() override {
    switch (type_) {
      case ParquetType::kBoolean: {
        if (at_ / 8 >= bytes_.size()) throw Error("{}", kEnds);
        return bits_at(bytes_, at_++, 1) != 0;
      }
      case ParquetType::kInt32:
        return int64_t{take<int32_t>()};
      case ParquetType::kInt64:
        return take<int64_t>();
      case ParquetType::kFloat:
        return double{take<float>()};
      case ParquetType::kDouble:
        return take<double>();
      default: {
        const auto size = take<uint32_t>();
        if (size > bytes_.size() - at_) throw Error("{}", kEnds);
        at_ += size;
        return bytes_.substr(at_ - size, size);
      }
    }
  }

 private:
  template <class T>
  T take() {
    const T value = little_endian<T>(bytes_, at_);
    at_ += sizeof(T);
    return value;
  }
  ParquetType type_;
  std::string_view bytes_;
  size_t at_ = 0;  // in bytes, for booleans in bits
};

class DictionaryValues final : public PageValues {
 public:
  DictionaryValues(std::string_view bytes, const std::vector<ParquetValue>& dictionary)
      : indices_(bytes.substr(std::min<size_t>(1, bytes.size())),
                 bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0])),
        dictionary_(dictionary) {}

  ParquetValue next() override {
    const uint32_t i = indices_.next();
    if (i >= dictionary_.size())
      throw Error("a page refers to value {} of a dictionary of {}", i, dictionary_.size());
    return dictionary_[i];
  }

 private:
  HybridReader indices_;
  const std::vector<ParquetValue>& dictionary_;
};

// RLE of booleans, after the number of its bytes.
class RleBooleans final : public PageValues {
 public:
  explicit RleBooleans(std::string_view bytes) {
    const auto size = little_endian<uint32_t>(bytes, 0);
    if (size > bytes.size() - sizeof size) throw Error("{}", kEnds);
    flags_ = HybridReader(bytes.substr(sizeof size, size), 1);
  }
  ParquetValue next() override { return flags_.next() != 0; }

 private:
  HybridReader flags_;
};

// DELTA_BINARY_PACKED: blocks of miniblocks of bit-packed differences.
class DeltaIntegers {
 public:
  explicit DeltaIntegers(std::string_view bytes) : bytes_(bytes) {
    constexpr uint64_t kMost = uint64_t{1} << 20;
    block_ = varint(bytes_, at_);
    miniblocks_ = varint(bytes_, at_);
    left_ = varint(bytes_, at_);
    value_ = static_cast<uint64_t>(zigzag());
    if (miniblocks_ == 0 || miniblocks_ > kMost || block_ > kMost || block_ % miniblocks_ != 0 ||
        block_ / miniblocks_ == 0 || block_ / miniblocks_ % 8 != 0)
      throw Error("a page has blocks of {} values in {} parts", block_, miniblocks_);
  }
  uint64_t left() const { return left_; }
  int64_t next() {
    if (left_ == 0) throw Error("{}", kEnds);
    --left_;
    const uint64_t value = value_;
    if (left_ > 0) advance();
    return static_cast<int64_t>(value);
  }
  // Returns the offset of the bytes after the last miniblock. REQUIRES: all values were read.
  size_t end() const { return at_; }

 private:
  int64_t zigzag() {
    const uint64_t n = varint(bytes_, at_);
    return static_cast<int64_t>((n >> 1) ^ (~(n & 1) + 1));
  }
  void next_miniblock() {
    if (miniblock_ == miniblocks_ || widths_.empty()) {
      least_ = static_cast<uint64_t>(zigzag());
      if (miniblocks_ > bytes_.size() - at_) throw Error("{}", kEnds);
      widths_ = bytes_.substr(at_, miniblocks_);
      at_ += miniblocks_;
      miniblock_ = 0;
    }
    width_ = static_cast<uint8_t>(widths_[miniblock_++]);
    if (width_ > 64) throw Error("a page has differences of {} bits", width_);
    const uint64_t size = block_ / miniblocks_ / 8 * static_cast<uint64_t>(width_);
    if (size > bytes_.size() - at_) throw Error("{}", kEnds);
    packed_ = bytes_.substr(at_, size);
    at_ += size;
    in_miniblock_ = 0;
  }
  void advance() {
    if (in_miniblock_ == block_ / miniblocks_ || widths_.empty()) next_miniblock();
    value_ += least_ + bits_at(packed_, in_miniblock_ * static_cast<uint64_t>(width_), width_);
    ++in_miniblock_;
  }

  std::string_view bytes_, widths_, packed_;
  size_t at_ = 0;
  uint64_t block_ = 0, miniblocks_ = 0, left_ = 0, value_ = 0, least_ = 0;
  uint64_t miniblock_ = 0, in_miniblock_ = 0;
  int width_ = 0;
};

class DeltaValues final : public PageValues {
 public:
  explicit DeltaValues(std::string_view bytes) : values_(bytes) {}
  ParquetValue next() override { return values_.next(); }

 private:
  DeltaIntegers values_;
};

// Lengths at the front of a page. They are decoded when they are needed, since a few bytes can
// stand for millions of equal ones.
class Lengths {
 public:
  // Removes the lengths (at most `count`) from `bytes`.
  Lengths(std::string_view& bytes, int64_t count) : lengths_(bytes) {
    if (lengths_.left() > static_cast<uint64_t>(count))
      throw Error("a page has {} lengths for {} values", lengths_.left(), count);
    DeltaIntegers all = lengths_;
    while (all.left() > 0) all.next();
    bytes.remove_prefix(all.end());
  }
  uint64_t next() {
    const int64_t n = lengths_.next();
    if (n < 0) throw Error("a page has a text of {} bytes", n);
    return static_cast<uint64_t>(n);
  }

 private:
  DeltaIntegers lengths_;
};

// DELTA_LENGTH_BYTE_ARRAY: all lengths, then all texts.
class DeltaLengthValues final : public PageValues {
 public:
  DeltaLengthValues(std::string_view bytes, int64_t count)
      : bytes_(bytes), lengths_(bytes_, count) {}
  ParquetValue next() override { return text(); }
  std::string_view text() {
    const uint64_t size = lengths_.next();
    if (size > bytes_.size()) throw Error("{}", kEnds);
    const std::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return out;
  }

 private:
  std::string_view bytes_;
  Lengths lengths_;
};

// DELTA_BYTE_ARRAY: the length of the part that a text shares with the one before it, then the
// rest.
class DeltaTextValues final : public PageValues {
 public:
  DeltaTextValues(std::string_view bytes, int64_t count)
      : shared_(bytes, count), rest_(bytes, count) {}
  ParquetValue next() override {
    const uint64_t shared = shared_.next();
    if (shared > text_.size())
      throw Error("a text shares {} bytes with one of {}", shared, text_.size());
    text_.resize(shared);
    text_ += rest_.text();
    return std::string_view(text_);
  }

 private:
  Lengths shared_;
  DeltaLengthValues rest_;
  std::string text_;
};

}  // namespace

std::unique_ptr<PageValues> page_values(const ParquetNode& column, ParquetEncoding encoding,
                                        std::string_view bytes, int64_t count,
                                        const std::vector<ParquetValue>& dictionary) {
  const bool text = column.type == ParquetType::kByteArray;
  const bool integer = column.type == ParquetType::kInt32 || column.type == ParquetType::kInt64;
  switch (encoding) {
    case ParquetEncoding::kPlain:
      return std::make_unique<PlainValues>(column.type, bytes);
    case ParquetEncoding::kPlainDictionary:
    case ParquetEncoding::kRleDictionary:
      return std::make_unique<DictionaryValues>(bytes, dictionary);
    case ParquetEncoding::kRle:
      if (column.type == ParquetType::kBoolean) return std::make_unique<RleBooleans>(bytes);
      break;
    case ParquetEncoding::kDeltaBinaryPacked:
      if (integer) return std::make_unique<DeltaValues>(bytes);
      break;
    case ParquetEncoding::kDeltaLengthByteArray:
      if (text) return std::make_unique<DeltaLengthValues>(bytes, count);
      break;
    case ParquetEncoding::kDeltaByteArray:
      if (text) return std::make_unique<DeltaTextValues>(bytes, count);
      break;
    default:
      break;
  }
  throw Error("column '{}' has the encoding {}, which is not supported for its type", column.name,
              name_of(encoding));
}

std::vector<ParquetValue> read_dictionary(const ParquetNode& column, std::string_view bytes,
                                          int64_t count) {
  if (column.type == ParquetType::kBoolean)
    throw Error("column '{}' of booleans has a dictionary", column.name);
  if (count > std::ssize(bytes) / 4)  // the smallest value has four bytes
    throw Error("a dictionary of {} bytes has {} values", bytes.size(), count);
  PlainValues values(column.type, bytes);
  std::vector<ParquetValue> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(values.next());
  return out;
}

}  // namespace tessera::data
