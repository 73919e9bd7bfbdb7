// Blends that change on the way: from a sample on, other sources or other weights.
#pragma once

#include <cstdint>
#include <vector>

#include "data/blend.h"

namespace tessera {

// A source that stands in several stages goes on in each where the ones before have left it: no
// sample of it is given twice, and none is left out.
class Mixture {
 public:
  struct Stage {
    int64_t first_sample = 0;     // ascending; that of the first stage is 0
    std::vector<int> sources;     // numbers of sources, each at most once
    std::vector<double> weights;  // as Blend wants them
  };
  // `sources`: how many there are in all.
  Mixture(std::vector<Stage> stages, int sources);

  // As Blend::at; the first sample of a stage takes what counting those before it takes.
  Blend::Pick at(int64_t sample);

  // How many of the first `samples` come from that source, to within one a stage.
  double expected(int source, int64_t samples) const;
  int stages() const { return static_cast<int>(stages_.size()); }
  int stage_of(int64_t sample) const;

 private:
  struct Running {
    Stage stage;
    Blend blend;
    std::vector<int64_t> before;  // by source: given by the stages before; empty: not yet counted
  };
  Running& stage_with_counts(int64_t sample);

  std::vector<Running> stages_;
};

}  // namespace tessera
