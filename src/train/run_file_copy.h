// The resolved configuration that a run leaves in its directory.
#pragma once

#include <string>

#include "config/run_config.h"

namespace tessera {

// Writes the configuration to run.yaml in the run directory. A file that a person made is never
// overwritten: where run.yaml is the run file that was given (config.source), or was not written by
// this function, the configuration is written to run.resolved.yaml instead. Returns the path.
// Throws Error.
Path write_run_file(const RunConfig& config, const std::string& version);

}  // namespace tessera
