// UTF-8, and the properties of code points that the tokenizers need. The tables are those of
// Unicode 16.0.0 (scripts/unicode_tables.py has the reason), independent of installed libraries.
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
  kChangesUnderNfc = 8,  // a text without any of these is in NFC already
  kUnknownToNfc = 16,    // newer than Hugging Face's normalizers, which leave it unchanged
};

// One code point, or one byte that is not part of a code point.
struct Utf8 {
  static constexpr char32_t kInvalid = 0xFFFFFFFF;
  char32_t code = kInvalid;
  int bytes = 1;  // 1 to 4; 1 for an invalid byte
};

// Returns a byte of a text as a number from 0 to 255.
inline uint8_t byte_at(std::string_view text, size_t i) { return text[i]; }

// Decodes the beginning of `text`, which is not empty. Overlong forms, surrogates and values above
// U+10FFFF are invalid (Unicode standard, table 3-7).
Utf8 decode_utf8(std::string_view text);

// Decodes the end of `text`, which is not empty.
Utf8 decode_utf8_backwards(std::string_view text);

// Returns the offset of the first byte at or after `from` that is not UTF-8; text.size(): none.
size_t find_invalid_utf8(std::string_view text, size_t from = 0);

// Returns pairs (code point << 8 | flags) in ascending order; flags apply up to the next pair.
std::span<const uint32_t> unicode_ranges();

// The flags of each code point, in a two-stage table with pages of 256.
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

// Returns the table, a constant that is built by the first call.
const UnicodeTable& unicode_table();

// Returns true if `text` may differ from its NFC form; false: it is in NFC.
bool may_change_under_nfc(std::string_view text, const UnicodeTable& table);

enum class NormalizationForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Appends a normalization form of `text` (Unicode annex 15), as Hugging Face's tokenizers compute
// it: characters newer than Unicode 9.0 and bytes that are not UTF-8 are unchanged, and nothing is
// composed or reordered across them.
void append_normalized(std::string_view text, NormalizationForm form, const UnicodeTable& table,
                       std::string& out);

// Appends the lower case of one character, without context, of Unicode 17; a byte that is not UTF-8
// is unchanged.
void append_lowercase(std::string_view character, std::string& out);

}  // namespace tessera::data
