// A SentencePiece unigram model as a tokenizer.json of Hugging Face's `tokenizers`, for readers
// whose own class for such a model leaves something out: transformers 5's for T5 has no byte
// fallback, and its LLaMA class takes every model for BPE.
#pragma once

#include <string>

#include "base/text_template.h"
#include "data/sentencepiece_model.h"

namespace tessera {

// The same ids for any text that the two libraries normalise alike: the rules are applied to
// clusters of characters there and to characters here. `around`: the control pieces that stand
// before and behind every text, as T5 has </s>; one that the model lacks is left out. Empty where
// that file cannot say it: a BPE model, or spaces that are a suffix or stay spaces.
std::string unigram_tokenizer_json(const SentencePieceModel& model, const TextTemplate& around);

}  // namespace tessera
