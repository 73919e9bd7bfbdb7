// Canonical decomposition, ordering and composition (NFC, Unicode Standard Annex 15), in time
// O(n log n). utf8proc provides the character data and the composition; this file orders the marks.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/unicode.h"

namespace tessera::data {
namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

int combining_class(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

// Appends the canonical decomposition of one character. Marks are not ordered yet.
void append_decomposed(utf8proc_int32_t code, std::vector<utf8proc_int32_t>& codes) {
  // No canonical decomposition has more than four characters.
  std::array<utf8proc_int32_t, 4> parts;
  int boundary = 0;
  const utf8proc_ssize_t n =
      utf8proc_decompose_char(code, parts.data(), parts.size(), kOptions, &boundary);
  CHECK(n >= 0 && n <= std::ssize(parts), "utf8proc: {}", n);
  codes.insert(codes.end(), parts.begin(), parts.begin() + n);
}

// Sorts each run of combining marks by combining class; marks of equal class keep their order, as
// the standard requires. (utf8proc_decompose exchanges neighbors, which needs quadratic time for
// long runs, as in hostile text.)
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  const auto is_mark = [](utf8proc_int32_t code) { return combining_class(code) != 0; };
  const auto before = [](auto a, auto b) { return combining_class(a) < combining_class(b); };
  for (auto at = codes.begin(); at != codes.end();) {
    const auto begin = std::find_if(at, codes.end(), is_mark);
    const auto end = std::find_if_not(begin, codes.end(), is_mark);
    if (!std::is_sorted(begin, end, before)) std::stable_sort(begin, end, before);
    at = end;
  }
}

// Appends the composition of `text`, which is valid UTF-8 without kUnknownToNfc characters.
void append_composed(std::string_view text, std::vector<utf8proc_int32_t>& codes,
                     std::string& out) {
  codes.clear();
  for (size_t i = 0; i < text.size();) {
    const Utf8 u = decode_utf8(text.substr(i));
    append_decomposed(u.code, codes);
    i += u.bytes;
  }
  // Composition expects the marks in canonical order.
  order_marks(codes);
  const auto n = utf8proc_normalize_utf32(codes.data(), std::ssize(codes), kOptions);
  CHECK(n >= 0, "utf8proc_normalize_utf32: {}", n);
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    utf8proc_uint8_t buffer[4];
    const auto length = utf8proc_encode_char(codes[i], buffer);
    out.append(reinterpret_cast<const char*>(buffer), length);
  }
}

}  // namespace

bool may_change_under_nfc(std::string_view text, const UnicodeTable& table) {
  size_t i = 0;
  while (i < text.size()) {
    // Everything below U+0300, whose first byte is 0xCC, is unchanged by NFC and does not combine
    // with what precedes it.
    if (byte_at(text, i) < 0xCC) {
      ++i;
      continue;
    }
    const Utf8 u = decode_utf8(text.substr(i));
    if (table[u.code] & kChangesUnderNfc) return true;
    i += u.bytes;
  }
  return false;
}

void append_nfc(std::string_view text, const UnicodeTable& table, std::string& out) {
  std::vector<utf8proc_int32_t> codes;
  size_t from = 0, i = 0;
  while (i < text.size()) {
    const Utf8 u = decode_utf8(text.substr(i));
    const size_t bytes = u.bytes;
    // An unknown character or invalid byte is copied as it is. The parts before and after it are
    // normalized independently.
    if (u.code == Utf8::kInvalid || (table[u.code] & kUnknownToNfc)) {
      append_composed(text.substr(from, i - from), codes, out);
      out.append(text.substr(i, bytes));
      from = i + bytes;
    }
    i += bytes;
  }
  append_composed(text.substr(from), codes, out);
}

}  // namespace tessera::data
