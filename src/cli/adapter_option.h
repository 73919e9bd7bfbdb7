// The option --adapter applies LoRA adapters to the model of a checkpoint, without copying the
// model. A value is a PEFT folder, a run that was trained with `lora`, or `none` for the model
// without adapters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/stored_adapters.h"
#include "cli/arguments.h"

namespace tessera::cli {

struct NamedAdapters {
  std::string name;  // the value of the option; empty if it was not given
  std::shared_ptr<const checkpoint::StoredAdapters> adapters;  // nullptr: the model itself
};

// Add --adapter to a command. With add_adapters() the option may be repeated, and the command runs
// once per adapter.
void add_adapter(Arguments& arguments, std::string& adapter);
void add_adapters(Arguments& arguments, std::vector<std::string>& adapters);

// Reads the adapters of all values, for the model of `base`. Without values, returns one entry that
// leaves the checkpoint as it is. Throws Error if `base` has adapters of its own, or if a folder
// has no adapters of that model.
std::vector<NamedAdapters> open_adapters(const std::vector<std::string>& values,
                                         const checkpoint::CheckpointReader& base);

// Returns "  adapter NAME" for a line of results, or an empty string.
std::string adapter_label(const std::string& name);

// Applies the adapters that --adapter names to `base`. Does nothing if `value` is empty.
void use_adapter(const std::string& value, checkpoint::CheckpointReader& base);

}  // namespace tessera::cli
