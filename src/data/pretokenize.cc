#include "data/pretokenize.h"

namespace tessera {
namespace {

// 's 't 're 've 'm 'll 'd, in the order of the expression; 0: none of them.
size_t contraction(std::string_view rest) {
  if (rest.size() < 2) return 0;
  const char a = rest[1], b = rest.size() > 2 ? rest[2] : '\0';
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' || a == 'v') && b == 'e') return 3;
  return a == 'l' && b == 'l' ? 3 : 0;
}

}  // namespace

Pretokenizer::Pretokenizer(const UnicodeTable& table) : table_(table) {
  for (uint32_t b = 0; b < 256; ++b) {
    byte_class_[b] = b < 0x80 ? static_cast<uint8_t>(table[b] & kClassMask) : kLead;
  }
}

size_t Pretokenizer::run_end(std::string_view text, size_t from, uint8_t kind) const {
  size_t i = from;
  while (i < text.size()) {
    const uint8_t found = byte_class_[static_cast<uint8_t>(text[i])];
    if (found == kind) {
      ++i;
      continue;
    }
    if (found != kLead) break;
    const Utf8 u = decode_utf8(text.substr(i));
    if ((table_[u.code] & kClassMask) != kind) break;
    i += static_cast<size_t>(u.bytes);
  }
  return i;
}

// \s+(?!\S) takes a run of spaces but for its last one, which belongs to the word that follows (if
// it is ' ') or stands alone; at the end of the text, or where it is the only one, it takes it.
size_t Pretokenizer::space_end(std::string_view text, size_t from) const {
  const size_t end = run_end(text, from, kSpace);
  if (end == text.size()) return end;
  const size_t last =
      end - static_cast<size_t>(decode_utf8_backwards(text.substr(from, end - from)).bytes);
  return last > from ? last : end;
}

size_t Pretokenizer::word_end(std::string_view text, size_t from) const {
  const auto kind_at = [&](size_t i) {
    const uint8_t kind = byte_class_[static_cast<uint8_t>(text[i])];
    if (kind != kLead) return kind;
    return static_cast<uint8_t>(table_[decode_utf8(text.substr(i)).code] & kClassMask);
  };
  if (text[from] == '\'') {
    if (const size_t bytes = contraction(text.substr(from)); bytes > 0) return from + bytes;
  }
  size_t start = from;
  if (text[from] == ' ' && from + 1 < text.size()) ++start;
  const uint8_t kind = kind_at(start);
  return kind == kSpace ? space_end(text, from) : run_end(text, start, kind);
}

}  // namespace tessera
