// The byte-level alphabet of GPT-2 (Radford et al. 2019, encoder.py): each byte has a printable
// character. Bytes that are printable in Latin-1 represent themselves; the other 68 are U+0100 and
// up, in order, so vocabulary files contain no control characters and no spaces.
#include <array>

#include "data/tokenizer_json.h"

namespace tessera::data {
namespace {

constexpr bool shows_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<uint16_t, 256> kCharacterOf = [] {
  std::array<uint16_t, 256> table{};
  uint16_t next = 0x100;
  for (uint16_t b = 0; b < 256; ++b) table[b] = shows_itself(b) ? b : next++;
  return table;
}();

constexpr size_t kCharacters = 0x100 + 68;

constexpr std::array<int16_t, kCharacters> kByteOf = [] {
  std::array<int16_t, kCharacters> table{};
  for (int16_t& byte : table) byte = -1;
  for (int16_t b = 0; b < 256; ++b) table[kCharacterOf[b]] = b;
  return table;
}();

}  // namespace

char32_t byte_to_character(uint8_t byte) { return kCharacterOf[byte]; }

std::string bytes_to_characters(std::string_view bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    const char32_t code = byte_to_character(byte);
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {  // all of them are below U+0800
      text += static_cast<char>(0xC0 | (code >> 6));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return text;
}

std::string characters_to_bytes(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size();) {
    const Utf8 u = decode_utf8(text.substr(i));
    // A token with a character outside the alphabet, such as an added one, is its own text.
    if (u.code >= kCharacters || kByteOf[u.code] < 0) return std::string(text);
    bytes += static_cast<char>(kByteOf[u.code]);
    i += u.bytes;
  }
  return bytes;
}

}  // namespace tessera::data
