// Learns a SentencePiece model, by the library of that name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/sentencepiece_model.h"

namespace tessera::data {

struct SentencePieceTraining {
  // unigram: as T5 and mT5 have it: nmt_nfkc, runs of spaces become one, <pad> </s> <unk> = 0 1 2.
  // bpe: as LLaMA has it: text stays as it is, digits apart, <unk> <s> </s> = 0 1 2.
  SentencePieceKind kind = SentencePieceKind::kUnigram;
  int32_t vocabulary = 8192;  // pieces, with the special ones, bytes and sentinels
  int32_t sentinels = 0;      // T5 has 100
  double coverage = 0.9995;   // share of the text's characters that get a piece of their own
  bool byte_fallback = true;  // the other characters become bytes, else they are unknown
  // identity | nfkc | nmt_nfkc | nfkc_cf | nmt_nfkc_cf; empty: as above
  std::string normalizer = {};
  std::vector<std::string> user_tokens = {};  // pieces that are never taken apart
};

// Throws Error where a number is out of range or a name unknown.
void check_training(const SentencePieceTraining& training);

// Lines of text, one a call; false at the end.
using NextLine = std::function<bool(std::string& line)>;

// The bytes of the model file: the same for the same lines on every machine. Lines are cut where
// they are longer than 4,192 bytes, and tabs, which the library keeps for itself, become spaces.
// All lines are held in memory. Throws Error without any text, with what the library says (too
// large a vocabulary for the text, most of all), and what `next` throws.
std::string train_sentencepiece(const NextLine& next, const SentencePieceTraining& training);

}  // namespace tessera::data
