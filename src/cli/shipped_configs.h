// The files of configs/ that the program contains, so that their names work in every directory.
#pragma once

#include <span>
#include <string_view>

namespace tessera {

struct ShippedConfig {
  std::string_view folder, name,
      text;  // "clusters", "h100", the text of configs/clusters/h100.yaml
};

// Sorted by folder and name. Defined in a source that the build writes (shipped_configs.cmake).
std::span<const ShippedConfig> shipped_configs();

}  // namespace tessera
