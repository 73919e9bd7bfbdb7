// Parses a SentencePiece model file (a protobuf message) without the library, so that a damaged
// file results in an Error and the library only receives files that it can handle.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_template.h"

namespace tessera::data {

enum class SentencePieceKind : uint8_t { kUnigram, kBpe };
constexpr const char* enum_names(SentencePieceKind) { return "unigram|bpe"; }

// The values are those of the file.
enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,  // the one piece that represents characters without a piece
  kControl = 3,  // <s>, </s>, <pad>: never the result of encoding
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,  // <0x00> to <0xFF>
};

// In bytes. The library builds its index of pieces by recursion, one call per byte of a piece, and
// may compare this many bytes at each position of a text. Published models have at most about 100.
constexpr size_t kLongestPiece = 512;

struct SentencePieceModel {
  struct Piece {
    std::string text;  // spaces as U+2581
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  std::vector<Piece> pieces;  // indexed by id
  SentencePieceKind kind = SentencePieceKind::kUnigram;
  bool byte_fallback = false;  // encode a character without a piece as bytes; false: as unknown
  bool space_as_suffix = false;
  std::string unknown_text = " \u2047 ";  // decoded text of the unknown piece
  std::string begin_name = "<s>", end_name = "</s>", pad_name = "<pad>";

  std::string normalizer;      // name of the rules: nmt_nfkc, identity, …
  std::string characters_map;  // its rules, compiled; empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;

  // Returns the id of the control piece of this name; −1: there is none.
  int32_t control_id(std::string_view name) const;
};

// The character that represents a space in pieces.
constexpr std::string_view kSpaceCharacter = "\u2581";

// Returns the byte that a piece of the form <0x41> represents; −1: it has another form.
int byte_of(std::string_view piece);

// Parses a model file. Throws Error with `source` and the byte if the file is not such a message or
// is truncated. Also throws Error for a model of another kind (word, char) or with a denormalizer;
// for pieces that are empty, duplicate, longer than kLongestPiece, not UTF-8 or without a finite
// score; unless there is exactly one unknown piece; for byte fallback without its 256 pieces; and
// for normalization rules that point outside their table.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& source);

// Returns the model file with T5's sentinels (<extra_id_0> and so on) added after all other pieces.
// The last name comes first, so that <extra_id_0> has the largest id, as in T5 itself. Other ids do
// not change.
std::string with_sentinels(std::string_view bytes, int32_t count);

// Returns the number of sentinels at the end of the pieces.
int32_t count_sentinels(const SentencePieceModel& model);

// ---- Conversion of a SentencePiece unigram model to a tokenizer.json of Hugging Face's
// `tokenizers`, for readers whose own class does not support all of such a model: in transformers
// 5, the class for T5 has no byte fallback, and the class for LLaMA treats every model as BPE.

// Returns a tokenizer.json that gives the same ids for any text that the two libraries normalize in
// the same way (Hugging Face applies the rules to grapheme clusters, SentencePiece to characters).
// `around`: control pieces before and after every text, such as T5's </s>; pieces that the model
// lacks are omitted. Returns an empty string if the format cannot express the model: a BPE model,
// or one in which spaces are a suffix or are not escaped.
std::string unigram_tokenizer_json(const SentencePieceModel& model, const TextTemplate& around);

}  // namespace tessera::data
