// The parts of `tessera checkpoint import` and `export` that read and write PEFT folders.
#pragma once

#include <string>

#include "checkpoint/hf_folder.h"

namespace tessera::cli {

// Creates the checkpoint `out` from a base model and the adapters of a PEFT folder. Returns the
// exit code.
int import_adapter(const std::string& base, const std::string& folder, const std::string& out,
                   bool json);

// Writes the adapters of a checkpoint to a PEFT folder. Returns the exit code. Throws UsageError if
// `options` sets anything, since adapters are always written in f32 to one file.
int export_adapter(const std::string& checkpoint, const std::string& folder,
                   const std::string& base, const checkpoint::HfExportOptions& options, bool json);

}  // namespace tessera::cli
