// Decodes the lengths of UTF-8 characters by the table of well-formed byte sequences (Unicode
// standard, table 3-7; RFC 3629).
#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace tessera {

size_t utf8_length(std::string_view s, size_t i) {
  const auto at = [&](size_t k) { return k < s.size() ? static_cast<uint8_t>(s[k]) : uint8_t{0}; };
  const uint8_t a = at(i), b = at(i + 1);
  const auto follows = [](uint8_t x) { return (x & 0xc0) == 0x80; };
  if (a < 0x80) return 1;
  // 0xC0 and 0xC1 could only begin overlong forms of ASCII, and 0xF5 to 0xFF exceed U+10FFFF.
  if (a >= 0xc2 && a <= 0xdf) return follows(b) ? 2 : 0;
  if (a >= 0xe0 && a <= 0xef) {
    // U+D800 to U+DFFF are the surrogates of UTF-16, which UTF-8 must not encode.
    const bool overlong = a == 0xe0 && b < 0xa0, surrogate = a == 0xed && b > 0x9f;
    return follows(b) && follows(at(i + 2)) && !overlong && !surrogate ? 3 : 0;
  }
  if (a >= 0xf0 && a <= 0xf4) {
    const bool overlong = a == 0xf0 && b < 0x90, beyond = a == 0xf4 && b > 0x8f;
    return follows(b) && follows(at(i + 2)) && follows(at(i + 3)) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

size_t count_characters(std::string_view s) {
  size_t characters = 0;
  for (size_t i = 0; i < s.size(); ++characters) i += std::max<size_t>(utf8_length(s, i), 1);
  return characters;
}

std::string_view without_byte_order_mark(std::string_view s) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (s.starts_with(kMark)) s.remove_prefix(kMark.size());
  return s;
}

}  // namespace tessera
