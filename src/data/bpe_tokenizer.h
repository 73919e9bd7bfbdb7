// Byte-level byte-pair encoding (Radford et al. 2019): added tokens are cut out, the rest is
// normalised, split into words, and each word's bytes are merged.
#pragma once

#include <array>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/bpe_merges.h"
#include "data/pretokenize.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"
#include "data/unicode.h"

namespace tessera {

class BpeTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;

  // Throws Error, naming `source`, where the vocabulary cannot spell every text.
  BpeTokenizer(const BpeDescription& bpe, uint64_t fingerprint, const std::string& source);

  void encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
              EncodeReport* report) const override;
  std::string_view token_bytes(int32_t id) const override;
  int32_t vocabulary_size() const override { return static_cast<int32_t>(tokens_.size()); }
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  std::optional<int32_t> text_begin() const override { return text_begin_; }
  std::optional<int32_t> source_end() const override { return source_end_; }
  bool is_special(int32_t id) const override { return special_.contains(id); }
  size_t last_cut(std::string_view text) const override;
  uint64_t fingerprint() const override { return fingerprint_; }

 private:
  struct Output {
    std::vector<int32_t>& ids;
    EncodeCache& cache;
    EncodeReport& report;
  };
  void add_vocabulary(const BpeDescription& bpe);
  void add_added_tokens(const BpeDescription& bpe);
  void check_alphabet(const std::string& source);

  void encode_piece(std::string_view text, Output& out) const;  // no unnormalised tokens in it
  void encode_normalized(std::string_view text, Output& out) const;
  void encode_words(std::string_view text, Output& out) const;  // no added tokens in it
  void encode_word(std::string_view word, Output& out) const;
  void encode_new_word(std::string_view word, uint64_t hash, Output& out) const;

  const UnicodeTable& unicode_ = unicode_table();
  Pretokenizer pretokenizer_;
  AddedTokenFinder raw_tokens_{unicode_}, normalized_tokens_{unicode_};
  MergeTable merges_;
  bool nfc_, add_prefix_space_, cuts_words_, ignore_merges_;
  bool cuts_at_spaces_ = false;

  std::vector<std::string> tokens_;                 // bytes by id
  std::unordered_map<std::string, int32_t> words_;  // bytes to id, where merges are ignored
  std::set<int32_t> special_;                       // ids of added tokens that are special
  std::array<int32_t, 256> byte_id_{};              // -1: has none
  std::optional<int32_t> end_of_text_, text_begin_, source_end_;
  uint64_t fingerprint_;
};

}  // namespace tessera
