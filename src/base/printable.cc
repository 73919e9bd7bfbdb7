// Escapes the code points that a terminal interprets instead of showing. Text of files, host names
// and tokens could otherwise move the cursor, change colors or reverse the order of a log line.
#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"

namespace tessera {
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

std::string sentence(std::string message) {
  if (!message.ends_with('.')) message += '.';
  return message;
}

}  // namespace tessera
