#include "data/tokenizer.h"

#include "data/unicode.h"

namespace tessera::data {

void EncodeReport::add(const EncodeReport& later) {
  // `later` follows these texts, so its offsets increase by the bytes before it.
  if (first_invalid < 0 && later.first_invalid >= 0) first_invalid = bytes + later.first_invalid;
  bytes += later.bytes;
  invalid_bytes += later.invalid_bytes;
  replaced_bytes += later.replaced_bytes;
}

EncodeReport utf8_report(std::string_view text) {
  EncodeReport report;
  report.bytes = std::ssize(text);
  size_t invalid = find_invalid_utf8(text);
  if (invalid < text.size()) report.first_invalid = invalid;
  // The search resumes at the next byte, so each invalid byte is counted once.
  for (; invalid < text.size(); invalid = find_invalid_utf8(text, invalid + 1)) {
    ++report.invalid_bytes;
  }
  return report;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  EncodeCache cache(int64_t{1} << 16);
  encode(text, ids, cache);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += token_bytes(id);
  return text;
}

}  // namespace tessera::data
