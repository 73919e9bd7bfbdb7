// Finds the lengths of UTF-8 characters with the table of well-formed byte sequences (Unicode
// standard, table 3-7; RFC 3629).
#include "base/utf8.h"

#include <fmt/format.h>

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

// ---- Escapes
// The code points that a terminal interprets instead of showing are escaped. Otherwise text from
// files, host names and tokens could move the cursor, change colors or reverse the order of a log
// line.

namespace {

// Returns the code point of a well-formed character of n bytes.
uint32_t code_point(std::string_view s, size_t n) {
  const auto byte = [&](size_t k) { return static_cast<uint32_t>(static_cast<uint8_t>(s[k])); };
  if (n == 1) return byte(0);
  // The first byte of an n-byte character has n + 1 marker bits; each later byte carries 6 bits.
  uint32_t code = byte(0) & (0xffU >> (n + 1));
  for (size_t k = 1; k < n; ++k) code = code << 6 | (byte(k) & 0x3f);
  return code;
}

bool acts_on_terminals(uint32_t code) {
  const bool control =
      (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0);
  // U+2028 and U+2029 end a line; U+202A to U+202E and U+2066 to U+2069 override the writing
  // direction.
  const bool separator = code == 0x2028 || code == 0x2029;
  const bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return control || separator || direction;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t n = utf8_length(text, i);
    const uint32_t code = n == 0 ? 0 : code_point(text.substr(i), n);
    if (n == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    else if (!acts_on_terminals(code))
      out += text.substr(i, n);
    else
      out += code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
    i += std::max<size_t>(n, 1);
  }
  return out;
}

}  // namespace tessera
