// A run file that is read once and parsed with several sets of overrides. A pipe, such as
// `<(command)`, can be read only once.
#pragma once

#include "train/run_config.h"

namespace tessera {

struct RunFile {
  Tree tree;
  std::string source;  // its path, for messages
};

// Throws Error if the file cannot be read or is not YAML.
RunFile read_run_file(const Path& path);

// Returns what load_run(path, overrides) returns for the file.
RunConfig load_run(const RunFile& file, std::span<const std::string> overrides);

}  // namespace tessera
