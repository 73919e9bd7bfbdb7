// A byte-level BPE tokenizer that is small enough to be written down, for tests.
#pragma once

#include <string>

#include "base/tree.h"
#include "data/bpe_tokenizer.h"
#include "data/tokenizer_json.h"

namespace tessera::data {

// Ids 0 to 255 are the bytes; then " t", "he", " the", "ab".
inline BpeDescription small_bpe() {
  BpeDescription bpe;
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    bpe.vocabulary.emplace_back(bytes_to_characters(std::string_view(&byte, 1)), b);
  }
  const auto merge = [&](int32_t left, int32_t right) {
    const auto text = [&](int32_t id) { return bpe.vocabulary[static_cast<size_t>(id)].first; };
    const auto id = static_cast<int32_t>(bpe.vocabulary.size());
    bpe.vocabulary.emplace_back(text(left) + text(right), id);
    bpe.merges.push_back({left, right, id});
    return id;
  };
  const int32_t t = merge(' ', 't'), he = merge('h', 'e');
  merge(t, he);
  merge('a', 'b');
  return bpe;
}

inline BpeTokenizer tokenizer_of(const BpeDescription& bpe) {
  return BpeTokenizer(bpe, hash_bytes(write_tokenizer_json(bpe)), "test.json");
}

}  // namespace tessera::data
