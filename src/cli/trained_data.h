// How the run of a checkpoint read its data, so that `tessera eval` reads data alike. The
// configuration in a checkpoint is read as a tree, not as a RunConfig, because another version of
// the program may have written it, with keys that do not exist in this version.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/tree.h"
#include "checkpoint/checkpoint.h"
#include "config/run_config.h"

namespace tessera::cli {

// Returns the entry `section.key` of a run's configuration, or nullptr.
const Tree* find_key(const Tree& config, const char* section, const char* key);

// Sets `value` to the number or flag `section.key` of the run's configuration, if it exists.
template <class T>
void take_value(const Tree& config, const char* section, const char* key, T& value) {
  const Tree* const found = find_key(config, section, key);
  if (found == nullptr) return;
  if (const auto* whole = std::get_if<int64_t>(&found->value)) value = static_cast<T>(*whole);
  if (const auto* real = std::get_if<double>(&found->value)) value = static_cast<T>(*real);
  if (const auto* flag = std::get_if<bool>(&found->value)) value = static_cast<T>(*flag);
}

// Returns the sample length `asked`, or for 0 that of the training run: the model's context if the
// header does not contain the length (an imported model) or contains a larger one. Throws Error for
// a length that exceeds the context.
int64_t sample_length(int64_t asked, const checkpoint::CheckpointReader& reader,
                      const model::ModelConfig& model);

// The options of `tessera eval` for files of examples.
struct ExampleOptions {
  std::string file;
  std::string long_examples;  // error, skip or truncate
  int64_t length = 0;         // tokens per sample
};

// Returns the settings for a file of examples that is read as the run read its own. The chat
// template is a part of the checkpoint.
config::RunConfig run_on_examples(const ExampleOptions& options,
                                  const checkpoint::CheckpointReader& reader,
                                  const model::ModelConfig& model);

}  // namespace tessera::cli
