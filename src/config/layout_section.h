// The keys of the section `layout` that search for a layout, and the checks that the section fits
// the run. The layout itself: compile/layout.h.
#pragma once

#include <string>

#include "base/key_errors.h"

namespace tessera::config {

struct RunConfig;  // config/run_config.h

// Whether the layout is searched for instead of given.
struct LayoutSearch {
  bool search = false;
  std::string cluster = "hardware.yaml";

  static void fields(auto& self, auto&& visit) {
    visit(
        "search", self.search,
        "use the layout and batch.micro with the shortest predicted step for this number of ranks");
    visit(
        "cluster", self.cluster,
        "for search: the machine, a file written by `tessera bench` or a name of configs/clusters");
  }
};

// Adds an error if layout.recompute or layout.offload is not a known policy.
void check_policies(const RunConfig& run, KeyErrors& errors);

// Reports a layout that does not fit the model or the batch. Requires a run without other errors.
void check_layout(const RunConfig& run, KeyErrors& errors);

}  // namespace tessera::config
