// The keys of the run file that say when a run whose loss rises is stopped (train/divergence.h).
#pragma once

#include <cstdint>

namespace tessera {

struct DivergenceSection {
  double ratio = 1.5;
  int64_t steps = 20;
  double spike = 10;

  static void fields(auto& self, auto&& visit) {
    visit("ratio", self.ratio,
          "the run is saved and ends with exit code 3 when its loss stays above this times its "
          "first loss, and above ln(vocabulary); 0: never");
    visit("steps", self.steps, "number of last steps whose median loss is compared");
    visit("spike", self.spike,
          "a warning is printed when a loss exceeds the recent median by this many standard "
          "deviations; 0: never");
  }
};

}  // namespace tessera
