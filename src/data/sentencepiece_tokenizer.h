// SentencePiece (Kudo & Richardson 2018): text is normalized by the rules of the model file, spaces
// become U+2581, and the result is segmented into pieces, by the most probable segmentation
// (unigram) or by merges (bpe). Ids are those of release 0.2.2 and later of the sentencepiece
// library. The library does everything but the segmentation of unigram models, in which older
// releases differ (data/unigram_segmenter.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sentencepiece_model.h"
#include "data/tokenizer.h"
#include "data/unigram_segmenter.h"

namespace tessera::data {

// A text is encoded as the library encodes one sentence, with a space in front if the model adds
// one; then the first token of a decoded text begins with a space. Decoding does not restore what
// the normalizer changes (runs of spaces, ligatures, bytes that are not UTF-8).
class SentencePieceTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;

  // Throws Error that names `source`, as read_sentencepiece_model does.
  SentencePieceTokenizer(std::string_view bytes, const std::string& source);
  ~SentencePieceTokenizer() override;

  void encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
              EncodeReport* report) const override;
  // Returns the text of a piece with spaces, the byte of a byte piece, or the name of a control
  // piece.
  std::string_view token_bytes(int32_t id) const override;
  int32_t vocabulary_size() const override { return static_cast<int32_t>(texts_.size()); }
  std::optional<int32_t> end_of_text() const override;  // </s>
  std::optional<int32_t> source_end() const override { return end_of_text(); }
  // Returns true for control, unknown and unused pieces, and for user-defined ones whose names are
  // in angle brackets.
  bool is_special(int32_t id) const override;
  int32_t sentinels() const override { return sentinels_; }
  size_t last_cut(std::string_view text) const override;
  uint64_t fingerprint() const override { return fingerprint_; }

  const SentencePieceModel& model() const { return model_; }

 private:
  class Library;
  bool words_are_apart() const;
  void encode_word(std::string_view word, std::vector<int32_t>& ids, EncodeCache& cache) const;

  SentencePieceModel model_;
  std::unique_ptr<Library> library_;
  std::optional<UnigramSegmenter> unigram_;  // set for a unigram model
  std::vector<std::string> texts_;           // token_bytes() of each id
  uint64_t fingerprint_;
  int32_t end_ = -1, sentinels_ = 0;
  bool words_apart_ = false;  // words between single spaces can be encoded separately
};

}  // namespace tessera::data
