// A SentencePiece unigram model as a tokenizer.json of Hugging Face's `tokenizers`, for readers
// whose own class for such a model leaves something out: transformers 5's for T5 has no byte
// fallback, and its LLaMA class takes every model for BPE.
#pragma once

#include <string>

#include "data/sentencepiece_model.h"

namespace tessera {

// The same ids for any text that the two libraries normalise alike: the rules are applied to
// clusters of characters there and to characters here. `ends`: </s> behind every text, as T5 has
// it. Empty where that file cannot say it: a BPE model, or spaces that are a suffix or stay spaces.
std::string unigram_tokenizer_json(const SentencePieceModel& model, bool ends);

}  // namespace tessera
