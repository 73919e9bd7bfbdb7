// Byte-pair encoding: added tokens are matched first; the rest of the text is normalized and split
// into words, and the bytes (Radford et al. 2019) or characters of each word are merged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/bpe_characters.h"
#include "data/bpe_merges.h"
#include "data/bpe_vocabulary.h"
#include "data/decoder_steps.h"
#include "data/normalizer_steps.h"
#include "data/pretokenize.h"
#include "data/split_steps.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"
#include "data/unicode.h"

namespace tessera::data {

class BpeTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;

  // Throws Error that names `source` if a byte-level vocabulary cannot represent every text.
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
  std::string decode(std::span<const int32_t> ids) const override;

 private:
  struct Output {
    std::vector<int32_t>& ids;
    EncodeCache& cache;
    EncodeReport& report;
  };
  void add_added_tokens(const BpeDescription& bpe);
  // at_start: the piece is at the beginning of the text.
  void encode_piece(std::string_view text, bool at_start, Output& out) const;
  void encode_normalized(std::string_view text, bool at_start, Output& out) const;
  void encode_words(std::string_view text, bool at_start, Output& out) const;
  void encode_byte_words(std::string_view text, Output& out) const;
  void encode_characters(std::string_view text, Output& out) const;
  void encode_word(std::string_view word, Output& out) const;
  int64_t append_symbols(std::string_view word, std::vector<int32_t>& ids) const;
  void encode_new_word(std::string_view word, uint64_t hash, Output& out) const;

  const UnicodeTable& unicode_ = unicode_table();
  Normalizer normalizer_;
  Splitter splitter_;
  Decoder decoder_;
  Pretokenizer pretokenizer_;
  AddedTokenFinder raw_tokens_{unicode_}, normalized_tokens_{unicode_};
  BpeVocabulary vocabulary_;
  MergeTable merges_;
  std::optional<BpeCharacters> characters_;  // none if byte-level
  bool add_prefix_space_, cuts_at_spaces_;
  bool cuts_before_meta_;  // no token contains kSpaceCharacter after another character
  uint64_t fingerprint_;
};

}  // namespace tessera::data
