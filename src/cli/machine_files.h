// Resolves --cluster and --software: a file, or a name in configs/clusters or configs/software,
// whose files are built into the program.
#pragma once

#include <span>
#include <string>

#include "config/run_config.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/software.h"

namespace tessera::cli {

// Open a cluster or software description. Both throw Error with the known names if `name` is
// neither a file nor one of them, and Error for an invalid file.
plan::Hardware open_cluster(const std::string& name, std::span<const std::string> overrides = {});
plan::Software open_software(const std::string& name);

// Sets what the configuration leaves to the machine (the precision, the sizes), and returns the
// requirements of the machine's libraries. Call it before the run is compiled for a simulation.
Target resolve_for(const plan::Hardware& hardware, config::RunConfig& config);

}  // namespace tessera::cli
