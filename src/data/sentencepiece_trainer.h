// Trains a SentencePiece model with the sentencepiece library.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/sentencepiece_model.h"

namespace tessera::data {

struct SentencePieceTraining {
  // unigram: as in T5 and mT5: nmt_nfkc, runs of spaces become one, <pad> </s> <unk> = 0 1 2.
  // bpe: as in LLaMA: no normalization, digits are split, <unk> <s> </s> = 0 1 2.
  SentencePieceKind kind = SentencePieceKind::kUnigram;
  int32_t vocabulary = 8192;  // number of pieces, including special ones, bytes and sentinels
  int32_t sentinels = 0;      // number of sentinels; T5 has 100
  double coverage = 0.9995;   // share of the text's characters that have pieces
  bool byte_fallback = true;  // encode the other characters as bytes; false: as unknown
  // identity | nfkc | nmt_nfkc | nfkc_cf | nmt_nfkc_cf; empty: the default of `kind`
  std::string normalizer = {};
  std::vector<std::string> user_tokens = {};  // pieces that are never split
};

// Throws Error if a number is out of range or a name is unknown.
void check_training(const SentencePieceTraining& training);

// Reads the next line of text; returns false at the end.
using NextLine = std::function<bool(std::string& line)>;

// Returns the bytes of the model file, which are the same for the same lines on every machine.
// Lines longer than 4,192 bytes are split, and tabs, which the library reserves, become spaces. All
// lines are held in memory. Throws Error if there is no text, with the library's message if
// training fails (usually because the vocabulary is too large for the text), and whatever `next`
// throws.
std::string train_sentencepiece(const NextLine& next, const SentencePieceTraining& training);

}  // namespace tessera::data
