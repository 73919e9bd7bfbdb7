#include "base/shipped_configs.h"

#include <fmt/format.h>

namespace tessera {

const ShippedConfig* shipped_config(std::string_view folder, std::string_view name) {
  for (const ShippedConfig& c : shipped_configs())
    if (c.folder == folder && c.name == name) return &c;
  return nullptr;
}

std::string shipped_names(std::string_view folder) {
  std::string names;
  for (const ShippedConfig& c : shipped_configs())
    if (c.folder == folder) names += fmt::format("{}{}", names.empty() ? "" : " ", c.name);
  return names;
}

}  // namespace tessera
