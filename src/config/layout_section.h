// The section `layout` of the run file beyond the layout itself (compile/layout.h): how it is
// errors, and whether it fits the run.
#pragma once

#include <string>

#include "base/key_errors.h"

namespace tessera {

struct RunConfig;  // config/run_config.h

struct LayoutSearch {
  bool search = false;
  std::string cluster = "hardware.yaml";

  static void fields(auto& self, auto&& visit) {
    visit(
        "search", self.search,
        "take the fastest layout that is predicted for the ranks that start, and its batch.micro");
    visit("cluster", self.cluster,
          "for search: the machine, a file of tessera bench or a name of configs/clusters");
  }
};

// Whether the layout fits the model and the batch. Requires a run without other errors.
void check_layout(const RunConfig& run, KeyErrors& errors);

}  // namespace tessera
