// A SentencePiece model file (a protobuf message): what it says, read by ourselves, so that a
// damaged file ends in an Error and the library is only given files that it can bear.
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
  kUnknown = 2,  // the one piece that stands for what has no other
  kControl = 3,  // <s>, </s>, <pad>: never the result of encoding
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,  // <0x00> to <0xFF>
};

// In bytes. The library builds its index of pieces by recursion, one call per byte of a piece, and
// looks at this many bytes at each place of a text; published models have at most about 100.
constexpr size_t kLongestPiece = 512;

struct SentencePieceModel {
  struct Piece {
    std::string text;  // spaces as U+2581
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  std::vector<Piece> pieces;  // by id
  SentencePieceKind kind = SentencePieceKind::kUnigram;
  bool byte_fallback = false;  // a character without a piece becomes its bytes, else "unknown"
  bool space_as_suffix = false;
  std::string unknown_text = " \u2047 ";  // what the unknown piece is decoded to
  std::string begin_name = "<s>", end_name = "</s>", pad_name = "<pad>";

  std::string normalizer;      // name of the rules: nmt_nfkc, identity, …
  std::string characters_map;  // its rules, compiled; empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;

  // The id of the control piece of that name; −1: there is none.
  int32_t control_id(std::string_view name) const;
};

// The character of a space in pieces.
constexpr std::string_view kSpaceCharacter = "\u2581";

// The byte that a piece of the form <0x41> stands for; −1: it has another form.
int byte_of(std::string_view piece);

// Throws Error, naming `source` and the byte, for what is no such message or is cut off; for a
// model of another kind (word, char) or with a denormaliser; for pieces that are empty, longer than
// kLongestPiece, twice there, no UTF-8 or without a finite score; for none or two unknown pieces;
// for byte fallback without its 256 pieces; and for rules that point outside of their table.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& source);

// T5's sentinels, <extra_id_0> and so on, as pieces behind all others, the last name first, so that
// <extra_id_0> has the largest id, as T5 itself adds them. The model's other ids stay.
std::string with_sentinels(std::string_view bytes, int32_t count);

// How many of them stand at the end of the pieces.
int32_t count_sentinels(const SentencePieceModel& model);

// ---- A SentencePiece unigram model as a tokenizer.json of Hugging Face's `tokenizers`, for
// readers whose own class for such a model leaves something out: transformers 5's for T5 has no
// byte fallback, and its LLaMA class takes every model for BPE.

// The same ids for any text that the two libraries normalise alike: the rules are applied to
// clusters of characters there and to characters here. `around`: the control pieces that stand
// before and behind every text, as T5 has </s>; one that the model lacks is left out. Empty where
// that file cannot say it: a BPE model, or spaces that are a suffix or stay spaces.
std::string unigram_tokenizer_json(const SentencePieceModel& model, const TextTemplate& around);

}  // namespace tessera::data
