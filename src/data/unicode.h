// UTF-8 and what the tokenizers ask of a code point. The tables are those of Unicode 16.0.0
// (scripts/unicode_tables.py says why), whatever library is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// Properties of a code point: one class in the lowest two bits, and flags.
enum UnicodeFlags : uint8_t {
  kOther = 0,
  kLetter = 1,  // \p{L}
  kNumber = 2,  // \p{N}
  kSpace = 3,   // \s: White_Space
  kClassMask = 3,
  kWord = 4,             // \w
  kChangesUnderNfc = 8,  // a text without any of these is normalised already
  kUnknownToNfc = 16,    // younger than the normaliser of Hugging Face: stays as it stands
};

// One code point, or one byte that belongs to none.
struct Utf8 {
  static constexpr char32_t kInvalid = 0xFFFFFFFF;
  char32_t code = kInvalid;
  int bytes = 1;  // 1 to 4; 1 for an invalid byte
};

// A byte of a text, as a number from 0 to 255.
inline uint8_t byte_at(std::string_view text, size_t i) { return text[i]; }

// What stands at the beginning of `text`, which is not empty. Overlong forms, surrogates and
// values beyond U+10FFFF are invalid (the definition of Unicode, table 3-7).
Utf8 decode_utf8(std::string_view text);

// What stands at the end of `text`, which is not empty.
Utf8 decode_utf8_backwards(std::string_view text);

// The place of the first byte at or after `from` that is no UTF-8; text.size() if there is none.
size_t find_invalid_utf8(std::string_view text, size_t from = 0);

// Pairs (code point << 8 | flags), ascending: the flags hold up to the next pair.
std::span<const uint32_t> unicode_ranges();

// The flags by code point, in two stages of 256.
class UnicodeTable {
 public:
  UnicodeTable();

  uint8_t operator[](char32_t code) const {
    return code > 0x10FFFF ? uint8_t{kOther}
                           : pages_[size_t{page_of_[code >> 8]} * 256 + (code & 255)];
  }

 private:
  std::vector<uint8_t> page_of_;  // [0x1100]
  std::vector<uint8_t> pages_;    // [pages, 256]
};

// The one table there is: constant, made at the first call.
const UnicodeTable& unicode_table();

// True where `text` may differ from its NFC form: no is certain, yes is not.
bool may_change_under_nfc(std::string_view text, const UnicodeTable& table);

// Appends the canonical composition of `text` (Unicode annex 15), as Hugging Face's tokenizers
// make it: characters younger than Unicode 9.0 and bytes that are no UTF-8 stay as they are, and
// nothing composes or moves across them.
void append_nfc(std::string_view text, const UnicodeTable& table, std::string& out);

}  // namespace tessera::data
