// Names and values that other training programs have for what a run file sets. A run file or a
// command line that has one is answered with the key or value of this program.
// foreign_key_table.cc, foreign_tuning_keys.cc and foreign_values.cc have the tables.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/tree.h"

namespace tessera::config {

struct ForeignKey {
  std::string_view name;     // as a whole path, or its end: "training.steps", "max_steps"
  std::string_view program;  // "Megatron-LM"
  std::string_view key;      // Tessera's key; empty if no single key corresponds
  // What to write if the two keys have different values; further keys are in backquotes.
  std::string_view advice = {};
  bool top_level = false;  // too general to be recognized as an end of a path: "tokens"
};

// Returns all entries: those of the two tables.
std::span<const ForeignKey> foreign_keys();
std::span<const ForeignKey> general_foreign_keys();  // foreign_key_table.cc
std::span<const ForeignKey> foreign_tuning_keys();   // foreign_tuning_keys.cc

// Returns the end of a message about an unknown key or option, such as
// "(Hugging Face Trainer): use schedule.steps"; empty if the name is not known. Case does not
// matter, '-' counts as '_', and leading dashes are dropped. A path is known if it, an end of it
// ("train.max_steps") or a beginning of it ("fsdp_config.sharding") is.
std::string foreign_key_advice(std::string_view name);

struct ForeignValue {
  std::string_view key, value;  // "precision", "float32"; the value in lower case
  std::string_view advice;      // text with Tessera's keys and values in backquotes
};

std::span<const ForeignValue> foreign_values();

// Returns the advice about a value of a key, without backquotes; empty if the value is not known.
// Case does not matter, and '-' counts as '_'.
std::string foreign_value_advice(std::string_view key, const Tree& value);

// Throws Error("run.yaml:3:1: unknown key 'max_steps' (Hugging Face Trainer): use schedule.steps")
// for the first key of the tree or of the override that is not among `fields` and has a foreign
// name, and Error("run.yaml:3:12: precision: found 'float32'; use precision: fp32") for the first
// foreign value. Other unknown keys and values are left to the reader.
void reject_foreign_keys(const Tree& tree, const std::string& source,
                         std::span<const Field> fields);
void reject_foreign_key(const Override& override, std::span<const Field> fields);

}  // namespace tessera::config
