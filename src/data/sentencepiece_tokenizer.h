// SentencePiece (Kudo & Richardson 2018): text is normalised by the rules of the model file, spaces
// become U+2581, and the whole is cut into pieces, by the likeliest cut (unigram) or by merges
// (bpe). Ids are those of the sentencepiece library, from release 0.2.2 on; it does all but the cut
// of a unigram model, which older releases of it make otherwise (data/unigram_cut.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sentencepiece_model.h"
#include "data/tokenizer.h"
#include "data/unigram_cut.h"

namespace tessera::data {

// A text is encoded as the library encodes it as one sentence, with the space in front that the
// model puts there: so the first token of a decoded text begins with a space. What the normaliser
// changes (runs of spaces, ligatures, bytes that are no UTF-8) does not come back.
class SentencePieceTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;

  // Throws Error, naming `source`, as read_sentencepiece_model does.
  SentencePieceTokenizer(std::string_view bytes, const std::string& source);
  ~SentencePieceTokenizer() override;

  void encode(std::string_view text, std::vector<int32_t>& ids, EncodeCache& cache,
              EncodeReport* report) const override;
  // Of a piece its text with spaces, of a byte piece the byte, of a control piece its name.
  std::string_view token_bytes(int32_t id) const override;
  int32_t vocabulary_size() const override { return static_cast<int32_t>(texts_.size()); }
  std::optional<int32_t> end_of_text() const override;  // </s>
  std::optional<int32_t> source_end() const override { return end_of_text(); }
  // Control, unknown and unused pieces, and user-defined ones with a name in angle brackets.
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
  std::optional<UnigramCut> unigram_;  // of a unigram model
  std::vector<std::string> texts_;     // by id
  uint64_t fingerprint_;
  int32_t end_ = -1, sentinels_ = 0;
  bool words_apart_ = false;  // words between single spaces are encoded alike alone and in a text
};

}  // namespace tessera::data
