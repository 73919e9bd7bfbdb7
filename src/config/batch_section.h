// The section `batch` of the run file: sequences of a step, and of the first steps.
#pragma once

#include <cstdint>
#include <vector>

#include "base/key_errors.h"
#include "base/range.h"

namespace tessera::config {

struct RunConfig;  // config/run_config.h

struct BatchSection {
  int64_t global = 1, micro = 1;
  std::vector<int64_t> warmup_sizes;
  int64_t warmup_steps_per_size = 0;

  static void fields(auto& self, auto&& visit) {
    visit("global", self.global, "sequences per step, over all ranks", at_least(1));
    visit("micro", self.micro,
          "sequences that a rank computes at once; divides global / data ranks", at_least(1));
    visit("warmup_sizes", self.warmup_sizes,
          "batch sizes of the first steps of the run, such as [64, 128, 192], before global");
    visit("warmup_steps_per_size", self.warmup_steps_per_size, "steps at each of these sizes");
  }
};

// Whether the sizes divide each other and the layout, and a step is neither too large to compile
// nor to count in bytes. Requires values within their ranges.
void check(const BatchSection& batch, const RunConfig& run, KeyErrors& errors);

}  // namespace tessera::config
