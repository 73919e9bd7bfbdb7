// Resolves --cluster and --software: a file, or a name in configs/clusters or configs/software,
// whose files the program contains.
#pragma once

#include <span>
#include <string>

#include "plan/hardware.h"
#include "plan/software.h"

namespace tessera::cli {

// Throws Error with the known names if `name` is neither a file nor one of them, and as
// load_hardware does.
plan::Hardware open_cluster(const std::string& name, std::span<const std::string> overrides = {});
plan::Software open_software(const std::string& name);

}  // namespace tessera::cli
