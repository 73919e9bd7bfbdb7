// Groups of optimizers as a run file gives them, for tests.
#pragma once

#include <string>
#include <vector>

#include "config/optimizer_section.h"

namespace tessera::config {

inline std::vector<OptimizerGroupSection> groups_of(const std::string& yaml) {
  std::vector<OptimizerGroupSection> groups;
  read_value(parse_yaml(yaml, "groups"), groups, {"groups:1:1", "optimizer.groups"});
  return groups;
}

}  // namespace tessera::config
