#include "data/tokenizer.h"

namespace tessera {

void EncodeReport::add(const EncodeReport& later) {
  if (first_invalid < 0 && later.first_invalid >= 0) first_invalid = bytes + later.first_invalid;
  bytes += later.bytes;
  invalid_bytes += later.invalid_bytes;
  replaced_bytes += later.replaced_bytes;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  EncodeCache cache(int64_t{1} << 20);
  encode(text, ids, cache);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += token_bytes(id);
  return text;
}

}  // namespace tessera
