// Fills the tables of a vocabulary. If it is byte-level, tokenizer.json writes bytes as printable
// characters (the alphabet of GPT-2); here each token is stored as the bytes that it represents.
#include "data/bpe_vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "data/unicode.h"

namespace tessera::data {

BpeVocabulary::BpeVocabulary(const BpeDescription& bpe, const Decoder& decoder,
                             const std::string& source) {
  add_vocabulary(bpe, decoder);
  add_added_tokens(bpe);
  if (bpe.byte_level) check_alphabet(source);
}

void BpeVocabulary::add_vocabulary(const BpeDescription& bpe, const Decoder& decoder) {
  for (const auto& [text, id] : bpe.vocabulary) size_ = std::max(size_, id + 1);
  for (const AddedToken& token : bpe.added_tokens) size_ = std::max(size_, token.id + 1);
  tokens_.resize(size_);
  if (!bpe.byte_level) texts_.resize(size_);
  byte_id_.fill(-1);
  for (const auto& [text, id] : bpe.vocabulary) {
    std::string& bytes = tokens_[id];
    bytes = bpe.byte_level ? characters_to_bytes(text) : decoder.decode_inner(text);
    if (!bpe.byte_level) {
      texts_[id] = text;
      continue;
    }
    // The token of a single byte must be spelled as its character of the alphabet. An added token
    // with the same byte does not count.
    const Utf8 first = text.empty() ? Utf8{} : decode_utf8(text);
    if (bytes.size() != 1 || first.bytes != std::ssize(text)) continue;
    const uint8_t byte = bytes[0];
    if (byte_to_character(byte) == first.code) byte_id_[byte] = id;
  }
  if (!bpe.ignore_merges) return;
  // With ignore_merges, a word that is in the vocabulary is one token, whatever its merges give
  // (Llama 3).
  for (const auto& [text, id] : bpe.vocabulary) {
    if (!bpe.byte_level)
      words_.emplace(text, id);
    else if (bytes_to_characters(tokens_[id]) == text)
      words_.emplace(tokens_[id], id);
  }
}

void BpeVocabulary::add_added_tokens(const BpeDescription& bpe) {
  for (const AddedToken& token : bpe.added_tokens) {
    tokens_[token.id] = token.content;
    if (!texts_.empty()) texts_[token.id] = token.content;
    if (token.special) specials_.insert(token.id);
    if (token.content == bpe.around.begin) text_begin_ = token.id;
    if (token.content == bpe.around.end) source_end_ = token.id;
  }
  for (const char* name :
       {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>"}) {
    for (const AddedToken& token : bpe.added_tokens) {
      if (token.content == name && !end_of_text_) end_of_text_ = token.id;
    }
  }
}

// A byte without a token is replaced by U+FFFD, so the three bytes of that character must have
// tokens.
void BpeVocabulary::check_alphabet(const std::string& source) const {
  for (const uint8_t byte : kReplacement) {
    if (byte_id_[byte] >= 0) continue;
    throw Error(
        "{}: model.vocab has no token for the byte 0x{:02x}, so it cannot represent every text. "
        "Train it with the whole alphabet of 256 bytes ('tessera tokenizer train' does; in "
        "Hugging Face: initial_alphabet=ByteLevel.alphabet())",
        source, byte);
  }
}

int32_t BpeVocabulary::id_of_word(std::string_view word) const {
  if (words_.empty()) return -1;
  const auto found = words_.find(std::string(word));
  return found == words_.end() ? -1 : found->second;
}

}  // namespace tessera::data
