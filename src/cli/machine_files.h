// Resolves --cluster and --software: a file, or a name in configs/clusters or configs/software,
// whose files the program contains.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/run_config.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/software.h"

namespace tessera::cli {

// Throws Error with the known names if `name` is neither a file nor one of them, and as
// load_hardware does.
plan::Hardware open_cluster(const std::string& name, std::span<const std::string> overrides = {});
plan::Software open_software(const std::string& name);

// Sets what the configuration leaves to the machine (the precision, the sizes), and returns what
// the libraries of the machine require. Call it before the run is compiled for a simulation.
Target resolve_for(const plan::Hardware& hardware, config::RunConfig& config);

// ---- The files of configs/ that the program contains, so that their names work in every
// directory.

struct ShippedConfig {
  std::string_view folder, name,
      text;  // "clusters", "h100", the text of configs/clusters/h100.yaml
};

// Sorted by folder and name. Defined in a source that the build writes (shipped_configs.cmake).
std::span<const ShippedConfig> shipped_configs();

}  // namespace tessera::cli
