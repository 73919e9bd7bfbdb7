// A run file that is read once and parsed with several sets of overrides. A pipe, such as
// `<(command)`, can be read only once.
#pragma once

#include "base/file.h"
#include "config/run_config.h"

namespace tessera {

struct RunFile {
  Tree tree;
  std::string source;  // its path, for messages
};

// Throws Error if the file cannot be read or is not YAML.
RunFile read_run_file(const Path& path);

// As read_run. With checkpoint.from and without model.preset and model.layers the model section is
// that of the checkpoint, overridden by the keys that are given.
RunConfig load_run(const Path& path, std::span<const std::string> overrides);
RunConfig load_run(const RunFile& file, std::span<const std::string> overrides);

}  // namespace tessera
