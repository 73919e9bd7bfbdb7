// Compares vocabularies by a chained hash of the texts of their ids, in order.
#include "data/token_texts.h"

#include <algorithm>

#include "base/error.h"
#include "data/encode_cache.h"

namespace tessera {

uint64_t hash_token_texts(const Tokenizer& tokenizer, int64_t count) {
  uint64_t hash = 0;
  for (int64_t id = 0; id < count; ++id) {
    // Chained, so that the order of texts counts, and 16 bytes per token are hashed however long it
    // is.
    const uint64_t two[] = {hash, hash_bytes(tokenizer.token_bytes(static_cast<int32_t>(id)))};
    hash = hash_bytes({reinterpret_cast<const char*>(two), sizeof two});
  }
  return hash;
}

bool means_the_same(const Tokenizer& from, const Tokenizer& to) {
  const int64_t count = from.vocabulary_size();
  return from.fingerprint() == to.fingerprint() ||
         (to.vocabulary_size() >= count &&
          hash_token_texts(from, count) == hash_token_texts(to, count));
}

bool is_text(const Tokenizer& tokenizer, int32_t id) {
  if (id >= tokenizer.vocabulary_size() || tokenizer.is_special(id)) return false;
  const std::string_view bytes = tokenizer.token_bytes(id);
  return !std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

void require_padding(const Tokenizer& tokenizer, const std::string& name) {
  if (!is_text(tokenizer, 0)) return;
  throw Error(
      "{}: token 0 is the text '{}', but an encoder treats id 0 as padding, so that text would "
      "be ignored. Use a tokenizer whose id 0 is a special token, such as T5's <pad>",
      name, tokenizer.token_bytes(0));
}

}  // namespace tessera
