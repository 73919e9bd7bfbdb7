// Splits text into words by hand-written scanners that are equivalent to the tokenizers' regular
// expressions (pretokenize.h has them). A regex engine tries the alternatives of an expression in
// order at each position; here the class of the first character decides which one applies, so each
// byte is examined about once. Classes of ASCII characters are in a table; other characters are
// decoded and looked up.
#include "data/pretokenize.h"

#include <algorithm>

namespace tessera::data {
namespace {

// Returns the bytes of the contraction ('s 't 're 've 'm 'll 'd) that `rest` begins with; 0: none.
size_t contraction(std::string_view rest) {
  if (rest.size() < 2) return 0;
  const char a = rest[1], b = rest.size() > 2 ? rest[2] : '\0';
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' || a == 'v') && b == 'e') return 3;
  return a == 'l' && b == 'l' ? 3 : 0;
}

// Does the same ignoring case. U+017F, the long s, folds to s.
size_t contraction_of_any_case(std::string_view rest) {
  if (rest.substr(1).starts_with("\u017F")) return 3;
  char lower[3];
  const size_t bytes = std::min<size_t>(rest.size(), 3);
  for (size_t i = 0; i < bytes; ++i)
    lower[i] = rest[i] >= 'A' && rest[i] <= 'Z' ? static_cast<char>(rest[i] + 32) : rest[i];
  return contraction({lower, bytes});
}

bool ends_line(char c) { return c == '\r' || c == '\n'; }

size_t bytes_at(std::string_view text, size_t i) { return decode_utf8(text.substr(i)).bytes; }

}  // namespace

Pretokenizer::Pretokenizer(const UnicodeTable& table, PretokenizerKind split)
    : table_(table), split_(split) {
  for (uint32_t b = 0; b < 256; ++b) {
    byte_class_[b] = b < 0x80 ? static_cast<uint8_t>(table[b] & kClassMask) : kLead;
  }
}

size_t Pretokenizer::run_end(std::string_view text, size_t from, uint8_t kind) const {
  size_t i = from;
  while (i < text.size()) {
    const uint8_t found = byte_class_[byte_at(text, i)];
    if (found == kind) {
      ++i;
      continue;
    }
    if (found != kLead) break;
    const Utf8 u = decode_utf8(text.substr(i));
    if ((table_[u.code] & kClassMask) != kind) break;
    i += u.bytes;
  }
  return i;
}

// Returns the end of a run of spaces for the last two alternatives, \s+(?!\S) and \s+. The former
// matches the run without its last space, which is part of the next word if it is U+0020 and is a
// separate word otherwise. At the end of the text, and for a single space, the whole run matches.
size_t Pretokenizer::space_end(std::string_view text, size_t from) const {
  const size_t end = run_end(text, from, kSpace);
  if (end == text.size()) return end;
  const size_t last = end - decode_utf8_backwards(text.substr(from, end - from)).bytes;
  return last > from ? last : end;
}

uint8_t Pretokenizer::kind_at(std::string_view text, size_t i) const {
  const uint8_t kind = byte_class_[byte_at(text, i)];
  if (kind != kLead) return kind;
  return static_cast<uint8_t>(table_[decode_utf8(text.substr(i)).code] & kClassMask);
}

size_t Pretokenizer::digits_end(std::string_view text, size_t from, int most) const {
  size_t i = from;
  for (int n = 0; n < most && i < text.size() && kind_at(text, i) == kNumber; ++n)
    i += bytes_at(text, i);
  return i;
}

size_t Pretokenizer::word_end(std::string_view text, size_t from) const {
  if (split_ == PretokenizerKind::kOff) return text.size();
  return split_ == PretokenizerKind::kGpt2 ? gpt2_end(text, from) : later_end(text, from);
}

size_t Pretokenizer::later_end(std::string_view text, size_t from) const {
  if (text[from] == '\'') {
    if (const size_t bytes = contraction_of_any_case(text.substr(from)); bytes > 0)
      return from + bytes;
  }
  // [^\r\n\p{L}\p{N}]?\p{L}+ without its optional first character, then \p{N} or \p{N}{1,3}.
  const uint8_t kind = kind_at(text, from);
  if (kind == kLetter) return run_end(text, from, kLetter);
  if (kind == kNumber) return digits_end(text, from, split_ == PretokenizerKind::kLlama3 ? 3 : 1);
  // The same alternative with its first character: a space, a punctuation mark or another symbol.
  const size_t next = from + bytes_at(text, from);
  const uint8_t after = next < text.size() ? kind_at(text, next) : uint8_t{kSpace};
  if (after == kLetter && !ends_line(text[from])) return run_end(text, next, kLetter);
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  if (kind == kOther || (text[from] == ' ' && after == kOther)) {
    size_t end = run_end(text, kind == kOther ? from : next, kOther);
    while (end < text.size() && ends_line(text[end])) ++end;
    return end;
  }
  // \s*[\r\n]+ matches a run of spaces up to and including its last line end.
  for (size_t i = run_end(text, from, kSpace); i > from; --i)
    if (ends_line(text[i - 1])) return i;
  return space_end(text, from);
}

size_t Pretokenizer::gpt2_end(std::string_view text, size_t from) const {
  if (text[from] == '\'') {
    if (const size_t bytes = contraction(text.substr(from)); bytes > 0) return from + bytes;
  }
  // Skips the optional space of the three alternatives with a class. The next character decides
  // which of them applies.
  size_t start = from;
  if (text[from] == ' ' && from + 1 < text.size()) ++start;
  const uint8_t kind = kind_at(text, start);
  return kind == kSpace ? space_end(text, from) : run_end(text, start, kind);
}

}  // namespace tessera::data
