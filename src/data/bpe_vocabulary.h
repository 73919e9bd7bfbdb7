// The vocabulary of a BPE tokenizer: ids, bytes, and special roles of tokens.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/tokenizer_json.h"

namespace tessera::data {

class BpeVocabulary {
 public:
  // `decoder` gives the texts of tokens that are not byte-level. Throws Error that names `source`
  // if a byte-level vocabulary cannot represent every text.
  BpeVocabulary(const BpeDescription& bpe, const Decoder& decoder, const std::string& source);

  // Replaces a byte that has no token. All bytes of this text have tokens.
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

  int32_t size() const { return size_; }
  const std::string& bytes(int32_t id) const { return tokens_[id]; }  // 0 <= id < size()
  // Returns a token as the file spells it.
  const std::string& text(int32_t id) const { return texts_.empty() ? tokens_[id] : texts_[id]; }
  bool is_special(int32_t id) const { return specials_.contains(id); }

  // Only if byte-level.
  int32_t id_of_byte(uint8_t byte) const { return byte_id_[byte]; }  // -1: it has no token
  // Returns the token of a whole word if the tokenizer ignores merges for words that are in the
  // vocabulary, otherwise -1.
  int32_t id_of_word(std::string_view word) const;

  // See Tokenizer.
  std::optional<int32_t> end_of_text() const { return end_of_text_; }
  std::optional<int32_t> text_begin() const { return text_begin_; }
  std::optional<int32_t> source_end() const { return source_end_; }

 private:
  void add_vocabulary(const BpeDescription& bpe, const Decoder& decoder);
  void add_added_tokens(const BpeDescription& bpe);
  void check_alphabet(const std::string& source) const;

  int32_t size_ = 0;
  std::vector<std::string> tokens_;                 // bytes of each id
  std::vector<std::string> texts_;                  // spelling of each id; empty if byte-level
  std::unordered_map<std::string, int32_t> words_;  // bytes to id; empty unless merges are ignored
  std::unordered_set<int32_t> specials_;            // added tokens that are marked as special
  std::array<int32_t, 256> byte_id_{};              // -1: the byte has no token
  std::optional<int32_t> end_of_text_, text_begin_, source_end_;
};

}  // namespace tessera::data
