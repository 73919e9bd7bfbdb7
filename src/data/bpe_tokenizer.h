// Byte-level byte-pair encoding (Radford et al. 2019): added tokens are matched first; the rest of
// the text is normalized and split into words, and the bytes of each word are merged.
#pragma once

#include <string>
#include <vector>

#include "data/bpe_merges.h"
#include "data/bpe_vocabulary.h"
#include "data/pretokenize.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"
#include "data/unicode.h"

namespace tessera::data {

class BpeTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;

  // Throws Error that names `source` if the vocabulary cannot represent every text.
  BpeTokenizer(const BpeDescription& bpe, uint64_t fingerprint, const std::string& source);

  void encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
              EncodeReport* report) const override;
  std::string_view token_bytes(int32_t id) const override;
  int32_t vocabulary_size() const override { return vocabulary_.size(); }
  std::optional<int32_t> end_of_text() const override { return vocabulary_.end_of_text(); }
  std::optional<int32_t> text_begin() const override { return vocabulary_.text_begin(); }
  std::optional<int32_t> source_end() const override { return vocabulary_.source_end(); }
  bool is_special(int32_t id) const override { return vocabulary_.is_special(id); }
  size_t last_cut(std::string_view text) const override;
  uint64_t fingerprint() const override { return fingerprint_; }

 private:
  struct Output {
    std::vector<int32_t>& ids;
    EncodeCache& cache;
    EncodeReport& report;
  };
  void add_added_tokens(const BpeDescription& bpe);
  void encode_piece(std::string_view text, Output& out) const;  // text between raw added tokens
  void encode_normalized(std::string_view text, Output& out) const;
  void encode_words(std::string_view text, Output& out) const;  // text between all added tokens
  void encode_word(std::string_view word, Output& out) const;
  void encode_new_word(std::string_view word, uint64_t hash, Output& out) const;

  const UnicodeTable& unicode_ = unicode_table();
  Pretokenizer pretokenizer_;
  AddedTokenFinder raw_tokens_{unicode_}, normalized_tokens_{unicode_};
  BpeVocabulary vocabulary_;
  MergeTable merges_;
  bool nfc_, add_prefix_space_, cuts_at_spaces_;
  uint64_t fingerprint_;
};

}  // namespace tessera::data
