#include <utf8proc.h>

#include "base/error.h"
#include "data/unicode.h"

namespace tessera {
namespace {

// `text` is valid UTF-8 of characters that the normaliser knows.
void append_composed(std::string_view text, std::vector<utf8proc_int32_t>& codes,
                     std::string& out) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  // No canonical decomposition has more than four characters; one byte or more is read for each.
  codes.resize(text.size() * 4 + 1);
  const auto room = static_cast<utf8proc_ssize_t>(codes.size());
  utf8proc_ssize_t n = utf8proc_decompose(bytes, size, codes.data(), room, kOptions);
  CHECK(n >= 0 && n <= room, "utf8proc_decompose: {}", n);
  n = utf8proc_normalize_utf32(codes.data(), n, kOptions);
  CHECK(n >= 0, "utf8proc_normalize_utf32: {}", n);
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    utf8proc_uint8_t buffer[4];
    const auto length = utf8proc_encode_char(codes[static_cast<size_t>(i)], buffer);
    out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(length));
  }
}

}  // namespace

bool may_change_under_nfc(std::string_view text, const UnicodeTable& table) {
  size_t i = 0;
  while (i < text.size()) {
    // Everything below U+0300, whose first byte is 0xCC, is inert.
    if (static_cast<uint8_t>(text[i]) < 0xCC) {
      ++i;
      continue;
    }
    const Utf8 u = decode_utf8(text.substr(i));
    if (table[u.code] & kChangesUnderNfc) return true;
    i += static_cast<size_t>(u.bytes);
  }
  return false;
}

void append_nfc(std::string_view text, const UnicodeTable& table, std::string& out) {
  std::vector<utf8proc_int32_t> codes;
  size_t from = 0, i = 0;
  while (i < text.size()) {
    const Utf8 u = decode_utf8(text.substr(i));
    const auto bytes = static_cast<size_t>(u.bytes);
    if (u.code == Utf8::kInvalid || (table[u.code] & kUnknownToNfc)) {
      append_composed(text.substr(from, i - from), codes, out);
      out.append(text.substr(i, bytes));
      from = i + bytes;
    }
    i += bytes;
  }
  append_composed(text.substr(from), codes, out);
}

}  // namespace tessera
