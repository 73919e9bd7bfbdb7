// Finds tokenizers that transformers' tokenizer class of the model's family reads differently.
//
// Some classes, such as Qwen2Tokenizer, set their own rule for splitting text into words and ignore
// the one in tokenizer.json.
#include "train/word_split.h"

#include "base/config.h"
#include "base/error.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"
#include "model/family.h"

namespace tessera::train {

bool splits_words_otherwise(const std::string& tokenizer, const std::string& source,
                            const model::ModelConfig& model) {
  return model::rule_of(model.family).hf_overrides_pretokenizer &&
         data::is_tokenizer_json(tokenizer) &&
         data::read_tokenizer_json(tokenizer, source).words != data::PretokenizerKind::kQwen2;
}

std::string word_split_warning(const std::string& tokenizer, const std::string& source,
                               const model::ModelConfig& model) {
  if (!splits_words_otherwise(tokenizer, source, model)) return {};
  return fmt::format(
      "the tokenizer splits text into words by its tokenizer.json, but AutoTokenizer of "
      "transformers splits it as the published {} does, so its ids differ. With transformers, use "
      "PreTrainedTokenizerFast",
      name_of_entry(model.family));
}

}  // namespace tessera::train
