// The files of configs/ (clusters, recipes, software, tasks) that the program contains, so that
// their names work in every directory.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera {

struct ShippedConfig {
  std::string_view folder;  // "clusters"
  std::string_view name;    // "h100"
  std::string_view text;    // the content of configs/clusters/h100.yaml
};

// Sorted by folder and name. Defined in a source that the build writes (shipped_configs.cmake).
std::span<const ShippedConfig> shipped_configs();

// Returns the file of that folder and name, or null.
const ShippedConfig* shipped_config(std::string_view folder, std::string_view name);

// Returns all names in a folder, separated by spaces, for messages.
std::string shipped_names(std::string_view folder);

}  // namespace tessera
