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

// Reads a run file. A name without a folder that is not a file may be that of a recipe that the
// program contains, such as pythia-70m. Throws Error if the file cannot be read or is not YAML.
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

// Returns true if transformers' tokenizer class of the family ignores how a tokenizer file splits
// text into words, so that AutoTokenizer would give other ids than the file. `source` is the name
// of the file in messages.
bool splits_words_otherwise(const model::ModelConfig& model, std::string_view tokenizer,
                            const std::string& source);

}  // namespace tessera::train
