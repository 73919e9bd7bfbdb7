// Decodes UTF-8 (Unicode standard, table 3-7) and looks properties up in a two-stage table: the
// page of a code point, then its entry. Equal neighboring pages are stored once, so the table has
// only a few tens of kilobytes.
#include "data/unicode.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera::data {
namespace {

bool continues(std::string_view text, size_t i) {
  return i < text.size() && (byte_at(text, i) & 0xC0) == 0x80;
}

}  // namespace

Utf8 decode_utf8(std::string_view text) {
  const uint8_t a = byte_at(text, 0);
  if (a < 0x80) return {a, 1};
  if (a < 0xC2 || a > 0xF4 || !continues(text, 1)) return {};
  const char32_t b = byte_at(text, 1) & 0x3F;
  if (a < 0xE0) return {(a & 0x1Fu) << 6 | b, 2};
  if (!continues(text, 2)) return {};
  const char32_t c = byte_at(text, 2) & 0x3F;
  if (a < 0xF0) {
    const char32_t code = (a & 0x0Fu) << 12 | b << 6 | c;
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    // Below U+0800 in three bytes is an overlong form, which must not be decoded.
    return code < 0x800 || surrogate ? Utf8{} : Utf8{code, 3};
  }
  if (!continues(text, 3)) return {};
  const char32_t d = byte_at(text, 3) & 0x3F;
  const char32_t code = (a & 0x07u) << 18 | b << 12 | c << 6 | d;
  return code < 0x10000 || code > 0x10FFFF ? Utf8{} : Utf8{code, 4};
}

Utf8 decode_utf8_backwards(std::string_view text) {
  // Tries the last 1 to 4 bytes for a well-formed character that ends exactly at the end.
  for (int bytes = 1; bytes <= std::min<int64_t>(4, std::ssize(text)); ++bytes) {
    const Utf8 u = decode_utf8(text.substr(text.size() - bytes));
    if (u.code != Utf8::kInvalid && u.bytes == bytes) return u;
  }
  return {};
}

size_t find_invalid_utf8(std::string_view text, size_t from) {
  size_t i = from;
  while (i < text.size()) {
    uint64_t eight = 0;
    // Eight ASCII bytes at a time: no byte has its high bit set.
    if (i + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + i, 8);
      if ((eight & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    const Utf8 u = decode_utf8(text.substr(i));
    if (u.code == Utf8::kInvalid) return i;
    i += u.bytes;
  }
  return text.size();
}

const UnicodeTable& unicode_table() {
  static const UnicodeTable table;
  return table;
}

UnicodeTable::UnicodeTable() : page_of_(0x1100) {
  const std::span<const uint32_t> ranges = unicode_ranges();
  std::vector<uint8_t> page(256);
  size_t next = 0;
  uint8_t flags = 0;
  for (uint32_t p = 0; p < 0x1100; ++p) {
    // A page without a change of flags is filled at once.
    const bool plain = next == ranges.size() || ranges[next] >> 16 > p;
    for (uint32_t i = 0; i < 256 && !plain; ++i) {
      if (next < ranges.size() && ranges[next] >> 8 == (p << 8 | i)) {
        flags = static_cast<uint8_t>(ranges[next++]);
      }
      page[i] = flags;
    }
    if (plain) std::fill(page.begin(), page.end(), flags);
    // Most neighboring pages are equal (CJK, unassigned planes), so comparing with the last one is
    // enough.
    const bool same = !pages_.empty() && std::equal(page.begin(), page.end(), pages_.end() - 256);
    if (!same) pages_.insert(pages_.end(), page.begin(), page.end());
    CHECK(pages_.size() <= size_t{256} * 256, "{} pages of Unicode flags", pages_.size() / 256);
    page_of_[p] = static_cast<uint8_t>(pages_.size() / 256 - 1);
  }
}

}  // namespace tessera::data
