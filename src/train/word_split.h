// Compares how a tokenizer.json splits text into words with transformers' tokenizer classes.
#pragma once

#include <string>

#include "model/model_config.h"

namespace tessera::train {

// Returns true if transformers' tokenizer class for the model's family ignores how this
// tokenizer.json splits text into words, so that AutoTokenizer gives other ids than Tessera.
// `tokenizer` is the content of the file, `source` names it in messages. Returns false for other
// kinds of tokenizers. Throws Error if the file is damaged.
bool splits_words_otherwise(const std::string& tokenizer, const std::string& source,
                            const model::ModelConfig& model);

// Returns a sentence for a user who starts from such a model; an empty text if AutoTokenizer
// agrees.
std::string word_split_warning(const std::string& tokenizer, const std::string& source,
                               const model::ModelConfig& model);

}  // namespace tessera::train
