// A run file that is read once and parsed with several sets of overrides. A pipe, such as
// `<(command)`, can be read only once.
#pragma once

#include "base/file.h"
#include "config/run_config.h"

namespace tessera::train {

struct RunFile {
  Tree tree;
  std::string source;  // its path, for messages
};

// Reads a run file. A name without a folder that is not a file may be the name of a recipe that the
// program contains, such as pythia-70m. Throws Error if the file cannot be read or is not YAML; for
// a name that is neither a file nor a recipe, the error lists the recipes.
RunFile read_run_file(const Path& path);

// Reads a run as config::read_run does. If checkpoint.from is set and neither model.preset nor
// model.layers is, the model section of the checkpoint is used, overridden by the given keys.
config::RunConfig load_run(const Path& path, std::span<const std::string> overrides);
config::RunConfig load_run(const RunFile& file, std::span<const std::string> overrides);

// ---- The checkpoint that supplies the model section and the tokenizer if the run file omits them.

// Returns the checkpoint that checkpoint.from names, or, if that one cannot be read any more, the
// newest checkpoint of the run itself. Throws Error if neither is readable.
Path origin_checkpoint(const config::RunConfig& config);

// Returns the model of that checkpoint, for a run file without a model section. Its preset is
// empty, since all values are given.
model::ModelConfig origin_model(const config::RunConfig& config);

// Returns the tokenizer file of the run: data.tokenizer, or, if that is empty, the tokenizer inside
// the checkpoint. Throws Error if there is none.
Path tokenizer_of_run(const config::RunConfig& config);

// Returns how a run reads chat data. Its template is data.chat_template; otherwise that of
// checkpoint.from; otherwise that in the folder of data.tokenizer; none if there is none. The names
// of special tokens and the tokens that end a turn come from the same folder and the tokenizer.
// Throws Error if the template is invalid or not supported, or if it differs from that of
// checkpoint.from and data.allow_other_template is not set.
data::ChatSpec chat_spec(const config::RunConfig& config, const data::Tokenizer& tokenizer);

// ---- Tokenizers that transformers' tokenizer class of the model's family reads differently

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
