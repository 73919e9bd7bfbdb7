// Checks token ids against a vocabulary. Errors have the file, document and byte of the first id
// outside it.
#include "data/vocabulary.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "data/encode_cache.h"

namespace tessera::data {
namespace {

auto first_outside(std::span<const int32_t> ids, int64_t vocabulary) {
  return std::find_if(ids.begin(), ids.end(),
                      [&](int32_t id) { return id < 0 || id >= vocabulary; });
}

}  // namespace

void require_vocabulary(std::span<const int32_t> ids, int64_t vocabulary,
                        const IndexedDataset& data, int64_t start) {
  if (vocabulary <= 0) return;
  const auto bad = first_outside(ids, vocabulary);
  if (bad == ids.end()) return;
  const int64_t token = start + (bad - ids.begin()), sequence = data.sequence_of(token);
  throw Error(
      "{}: token {} of document {} (byte {}) is {}, outside the vocabulary of {}. The dataset was "
      "probably built with another tokenizer. Build it again, or set model.vocabulary",
      data.data_name(), token - data.first_token(sequence), sequence, token * size_of(data.dtype()),
      *bad < 0 ? std::string("negative or too large for any") : std::to_string(*bad), vocabulary);
}

void require_vocabulary(const IndexedDataset& data, int64_t vocabulary) {
  constexpr int64_t kBlock = int64_t{1} << 16;
  std::vector<int32_t> ids(std::min(kBlock, data.tokens()));
  for (int64_t from = 0; from < data.tokens(); from += kBlock) {
    const size_t n = std::min(kBlock, data.tokens() - from);
    data.read(from, std::span(ids).first(n));
    require_vocabulary(std::span(ids).first(n), vocabulary, data, from);
  }
}

void require_vocabulary(const InstructionData& data, int64_t vocabulary) {
  if (vocabulary <= 0) return;
  for (int64_t e = 0; e < data.examples(); ++e) {
    const auto ids = data.ids(e);
    const auto bad = first_outside(ids, vocabulary);
    if (bad == ids.end()) continue;
    throw Error(
        "example {} of the instructions: the tokenizer encodes it with token id {}, outside the "
        "vocabulary of {}. Use the model's tokenizer, or set model.vocabulary",
        e, *bad, vocabulary);
  }
}

// Compares vocabularies by a chained hash of the texts of their ids, in order.
uint64_t hash_token_texts(const Tokenizer& tokenizer, int64_t count) {
  uint64_t hash = 0;
  for (int64_t id = 0; id < count; ++id) {
    // Hashes are chained, so that the order of the texts matters.
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

}  // namespace tessera::data
