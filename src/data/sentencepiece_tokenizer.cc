// Encodes text with a SentencePiece model. The library normalizes, and encodes with BPE models;
// unigram models are segmented by UnigramSegmenter, so that ids do not depend on the installed
// release. Words of a BPE model are encoded one by one and cached where that provably gives the ids
// of the whole text.
#include "data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "data/character_map.h"

namespace tessera::data {
namespace {

bool visible(char c) { return c > ' ' && c <= '~'; }

// Returns true if there is a single space between two visible ASCII characters at `at`.
bool gap_at(std::string_view text, size_t at) {
  return at > 0 && at + 1 < text.size() && text[at] == ' ' && visible(text[at - 1]) &&
         visible(text[at + 1]);
}

std::string text_of(const SentencePieceModel& model, const SentencePieceModel::Piece& piece) {
  if (piece.type == PieceType::kControl) return piece.text;
  if (piece.type == PieceType::kUnknown) return model.unknown_text;
  if (piece.type == PieceType::kByte) return std::string(1, static_cast<char>(byte_of(piece.text)));
  std::string text;
  for (size_t at = 0; at < piece.text.size();) {
    const bool space = std::string_view(piece.text).substr(at).starts_with(kSpaceCharacter);
    text += space ? ' ' : piece.text[at];
    at += space ? kSpaceCharacter.size() : 1;
  }
  return text;
}

// Returns true if a piece contains a space after another character, so that it could match across
// the gap between two words.
bool reaches_over_gap(std::string_view piece) {
  while (piece.starts_with(kSpaceCharacter)) piece.remove_prefix(kSpaceCharacter.size());
  return piece.find(kSpaceCharacter) != piece.npos || piece.find(' ') != piece.npos;
}

}  // namespace

class SentencePieceTokenizer::Library {
 public:
  Library(std::string_view bytes, const std::string& source) {
    const auto status = processor_.LoadFromSerializedProto({bytes.data(), bytes.size()});
    if (!status.ok()) throw Error("{}: {}", source, status.error_message());
  }
  void encode(std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<int> ours;
    const auto status = processor_.Encode({text.data(), text.size()}, &ours);
    if (!status.ok())
      throw Error("SentencePiece cannot encode a text of {} bytes: {}", text.size(),
                  status.error_message());
    ids.insert(ids.end(), ours.begin(), ours.end());
  }
  // Returns the text after the model's normalization: the concatenation of the pieces of any
  // segmentation.
  std::string normalized(std::string_view text) const {
    sentencepiece::ImmutableSentencePieceText pieces;
    const auto status = processor_.Encode({text.data(), text.size()}, pieces.mutable_proto());
    if (!status.ok())
      throw Error("SentencePiece cannot encode a text of {} bytes: {}", text.size(),
                  status.error_message());
    std::string all;
    for (const auto& p : pieces.pieces()) {
      if (processor_.IsByte(static_cast<int>(p.id())))
        all += static_cast<char>(byte_of(p.piece()));
      else
        all += p.piece();
    }
    return all;
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

SentencePieceTokenizer::SentencePieceTokenizer(std::string_view bytes, const std::string& source)
    : model_(read_sentencepiece_model(bytes, source)),
      library_(std::make_unique<Library>(bytes, source)),
      fingerprint_(hash_bytes(bytes)),
      end_(model_.control_id(model_.end_name)),
      sentinels_(count_sentinels(model_)),
      words_apart_(words_are_apart()) {
  if (model_.kind == SentencePieceKind::kUnigram) unigram_.emplace(model_);
  for (const auto& piece : model_.pieces) texts_.push_back(text_of(model_, piece));
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

// Returns true if the words of a text can be encoded separately. Merges of a BPE model stay within
// a word if no piece contains the space between two words, the normalizer does not change that
// space, and a word begins the same way within a text and at its start. Adjacent unknown characters
// become one token, which must not extend across the space, so the space itself must have a piece.
// For a unigram model, the result is false: the rounding of its sums depends on the text before a
// word.
bool SentencePieceTokenizer::words_are_apart() const {
  if (model_.kind != SentencePieceKind::kBpe || !model_.add_dummy_prefix || model_.space_as_suffix)
    return false;
  bool space = model_.byte_fallback;
  for (const auto& piece : model_.pieces) {
    if (piece.type == PieceType::kControl) continue;
    if (reaches_over_gap(piece.text)) return false;
    space = space || (piece.type == PieceType::kNormal && piece.text == kSpaceCharacter);
  }
  return space && model_.escape_spaces && CharacterMap(model_.characters_map, "").keeps_word_gaps();
}

std::optional<int32_t> SentencePieceTokenizer::end_of_text() const {
  return end_ < 0 ? std::nullopt : std::optional<int32_t>(end_);
}

bool SentencePieceTokenizer::is_special(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) return false;
  const auto& piece = model_.pieces[id];
  const bool named = piece.text.starts_with('<') && piece.text.ends_with('>');
  return piece.type == PieceType::kControl || piece.type == PieceType::kUnknown ||
         piece.type == PieceType::kUnused || (piece.type == PieceType::kUserDefined && named);
}

size_t SentencePieceTokenizer::last_cut(std::string_view text) const {
  if (!words_apart_ || !model_.remove_extra_spaces) return 0;
  for (size_t at = text.size(); at-- > 1;) {
    if (gap_at(text, at)) return at;
  }
  return 0;
}

std::string_view SentencePieceTokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) {
    throw Error("token id {} is outside the vocabulary of {}", id, vocabulary_size());
  }
  return texts_[id];
}

void SentencePieceTokenizer::encode_word(std::string_view word, std::vector<int32_t>& ids,
                                         EncodeCache& cache) const {
  const uint64_t hash = hash_bytes(word);
  const std::span<const int32_t> known = cache.find(word, hash);
  if (!known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  const size_t first = ids.size();
  library_->encode(word, ids);
  if (ids.size() > first) cache.insert(word, hash, std::span(ids).subspan(first));
}

void SentencePieceTokenizer::encode(std::string_view text, std::vector<int32_t>& ids,
                                    EncodeCache& cache, EncodeReport* report) const {
  if (report != nullptr) {
    EncodeReport ours = utf8_report(text);
    // The library replaces every invalid byte with U+FFFD.
    ours.replaced_bytes = ours.invalid_bytes;
    report->add(ours);
  }
  if (unigram_) return unigram_->cut(library_->normalized(text), ids);
  if (!words_apart_) return library_->encode(text, ids);
  cache.begin(fingerprint_);
  size_t from = 0;
  // The next word begins after the space, since the library adds a space in front of each text that
  // it encodes.
  for (size_t at = text.find(' '); at != text.npos; at = text.find(' ', at + 1)) {
    if (!gap_at(text, at)) continue;
    encode_word(text.substr(from, at - from), ids, cache);
    from = at + 1;
  }
  if (from < text.size()) encode_word(text.substr(from), ids, cache);
}

}  // namespace tessera::data
