// Resolves --cluster and --software: a file, or a name in configs/clusters or configs/software,
// whose files are built into the program.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "config/run_config.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/software.h"
#include "runtime/prepared_kernels.h"

namespace tessera::cli {

// Open a cluster or software description. Both throw Error with the known names if `name` is
// neither a file nor one of them, and Error for an invalid file.
plan::Hardware open_cluster(const std::string& name, std::span<const std::string> overrides = {});
plan::Software open_software(const std::string& name);
// Returns true if open_cluster() finds `name`.
bool has_cluster(const std::string& name);

struct MachineTarget {
  std::unique_ptr<runtime::PreparedKernels> kernels;  // `target` refers to them; null for a GPU
  Target target;                                      // requirements of the machine's libraries
};

// Sets what the configuration leaves to the machine (the precision, the sizes). Call it before the
// run is compiled for a simulation.
MachineTarget resolve_for(const plan::Hardware& hardware, config::RunConfig& config);

}  // namespace tessera::cli
