// Names that other training programs give to what a run file sets. A run file or a command line
// that has one is answered with the key of this program. Their values: foreign_values.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/config.h"

namespace tessera::config {

struct ForeignKey {
  std::string_view name;     // as a whole path, or its end: "training.steps", "max_steps"
  std::string_view program;  // "Megatron-LM"
  std::string_view key;      // Tessera's key; empty if no single key corresponds
  // What to write if the two keys have different values; further keys are in backquotes.
  std::string_view advice = {};
};

std::span<const ForeignKey> foreign_keys();

// Returns the end of a message about an unknown key or option, such as
// "(Hugging Face Trainer): use schedule.steps"; empty if the name is not known. Case does not
// matter, '-' counts as '_', and leading dashes are dropped. A path is known if it, an end of it
// ("train.max_steps") or a beginning of it ("fsdp_config.sharding") is.
std::string foreign_key_advice(std::string_view name);

// Throws Error("run.yaml:3:1: unknown key 'max_steps' (Hugging Face Trainer): use schedule.steps")
// for the first key of the tree or of the override that is not among `fields` and has a foreign
// name, and Error("run.yaml:3:12: precision: found 'float32'; use precision: fp32") for the first
// foreign value. Other unknown keys and values are left to the reader.
void reject_foreign_keys(const Tree& tree, const std::string& source,
                         std::span<const Field> fields);
void reject_foreign_key(const Override& override, std::span<const Field> fields);

}  // namespace tessera::config
