// Walks the pages of a column chunk: an optional dictionary, then data pages of version 1 (levels
// and values are compressed together) or 2 (only the values are compressed).
#include "data/parquet_column.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace tessera::data {
namespace {

// Returns the number of bits of levels from 0 to `largest`.
int bits_of(int largest) { return std::bit_width(static_cast<unsigned>(largest)); }

// Returns the levels at the front of a page of version 1, after their 4-byte length, and removes
// them.
std::string_view take_levels(std::string_view& page) {
  uint32_t size = 0;
  if (page.size() < sizeof size) throw Error("a page ends before its levels");
  std::memcpy(&size, page.data(), sizeof size);
  page.remove_prefix(sizeof size);
  if (size > page.size()) throw Error("a page ends before its levels");
  const std::string_view levels = page.substr(0, size);
  page.remove_prefix(size);
  return levels;
}

}  // namespace

ParquetColumn::ParquetColumn(const DataFile& file, const ParquetNode& column,
                             const ColumnChunk& chunk)
    : file_(file), column_(column), chunk_(chunk), at_(chunk.begin), values_(chunk.values) {
  require_codec(chunk.codec);
}

std::string ParquetColumn::read(int64_t at, int64_t count) const {
  std::string out(static_cast<size_t>(count), '\0');
  file_.read(at, std::as_writable_bytes(std::span(out)));
  return out;
}

// Reads more bytes until the header is complete: its statistics can be long.
PageHeader ParquetColumn::read_header() {
  constexpr int64_t kFirst = 1 << 12, kMost = 1 << 24;
  const int64_t left = chunk_.end - at_;
  for (int64_t count = kFirst;; count *= 16) {
    const std::string bytes = read(at_, std::min(count, left));
    try {
      return read_page_header(bytes);
    } catch (const Error&) {
      if (count >= left || count >= kMost) throw;
    }
  }
}

bool ParquetColumn::next_page() {
  while (at_ < chunk_.end) {
    const PageHeader h = read_header();
    at_ += static_cast<int64_t>(h.header_bytes);
    if (h.stored_bytes > chunk_.end - at_)
      throw Error("a page of column '{}' has {} bytes, but {} are left", column_.name,
                  h.stored_bytes, chunk_.end - at_);
    std::string stored = read(at_, h.stored_bytes);
    at_ += h.stored_bytes;
    if (h.type == PageType::kDictionary) {
      if (!dictionary_.empty()) throw Error("column '{}' has two dictionaries", column_.name);
      decompress(chunk_.codec, stored, h.bytes, dictionary_page_);
      dictionary_ = read_dictionary(column_, dictionary_page_, h.values);
      continue;
    }
    if (h.type != PageType::kData && h.type != PageType::kDataV2) continue;
    begin_page(h, std::move(stored));
    if (in_page_ > 0) return true;
  }
  return false;
}

void ParquetColumn::begin_page(const PageHeader& h, std::string stored) {
  std::string_view rest, repetitions, definitions;
  reader_.reset();
  if (h.type == PageType::kDataV2) {
    const int64_t level_bytes = h.repetition_bytes + h.definition_bytes;
    std::string values;
    const std::string_view all = stored;
    decompress(h.compressed ? chunk_.codec : ParquetCodec::kNone, all.substr(level_bytes),
               h.bytes - level_bytes, values);
    page_ = std::string(all.substr(0, level_bytes)) + values;
    const std::string_view levels = page_;
    repetitions = levels.substr(0, h.repetition_bytes);
    definitions = levels.substr(h.repetition_bytes, h.definition_bytes);
    rest = levels.substr(level_bytes);
  } else {
    decompress(chunk_.codec, stored, h.bytes, page_);
    rest = page_;
    const auto require_rle = [&](ParquetEncoding e) {
      if (e != ParquetEncoding::kRle)
        throw Error("the levels of column '{}' have the encoding {}, expected RLE", column_.name,
                    name_of(e));
    };
    if (column_.repeated > 0) {
      require_rle(h.repetition_encoding);
      repetitions = take_levels(rest);
    }
    if (column_.definition > 0) {
      require_rle(h.definition_encoding);
      definitions = take_levels(rest);
    }
  }
  repetitions_ = HybridReader(repetitions, bits_of(column_.repeated));
  definitions_ = HybridReader(definitions, bits_of(column_.definition));
  if (h.values > values_)
    throw Error("the pages of column '{}' have more than its {} values", column_.name,
                chunk_.values);
  in_page_ = h.values;
  // A page of nulls may have no bytes, not even those that its encoding begins with.
  reader_ = page_values(column_, rest.empty() ? ParquetEncoding::kPlain : h.encoding, rest,
                        h.values, dictionary_);
}

bool ParquetColumn::has_next() {
  if (loaded_) return true;
  if (in_page_ == 0 && !next_page()) {
    if (values_ > 0)
      throw Error("the pages of column '{}' end {} values too early", column_.name, values_);
    return false;
  }
  load_levels();
  return true;
}

void ParquetColumn::load_levels() {
  repetition_ = column_.repeated > 0 ? static_cast<int>(repetitions_.next()) : 0;
  definition_ = column_.definition > 0 ? static_cast<int>(definitions_.next()) : 0;
  if (repetition_ > column_.repeated || definition_ > column_.definition)
    throw Error("column '{}' has the levels {} and {}, expected at most {} and {}", column_.name,
                repetition_, definition_, column_.repeated, column_.definition);
  loaded_ = true;
}

ParquetValue ParquetColumn::take() {
  CHECK(loaded_, "no value was loaded");
  loaded_ = false;
  --in_page_;
  --values_;
  return is_null() ? ParquetValue() : reader_->next();
}

}  // namespace tessera::data
