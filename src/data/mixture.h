// Blends that change on the way: from a sample on, other sources or other weights.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/blend.h"

namespace tessera::data {

// A source that is part of several stages continues in each where the ones before have left it: no
// sample of it is given twice, and none is left out.
class Mixture {
 public:
  struct Stage {
    int64_t first_sample = 0;     // ascending
    std::vector<int> sources;     // numbers of sources, each at most once
    std::vector<double> weights;  // as Blend expects them
  };
  // The point at which a run resumes, in its first stage.
  struct Start {
    int64_t sample = 0;           // samples given in all
    std::vector<int64_t> before;  // by source: its place when the stage began
    std::vector<int64_t> given;   // by source: its place now; the stage has given the difference
  };
  // `sources`: how many there are in all. Without a start the first stage begins at sample 0.
  Mixture(std::vector<Stage> stages, int sources, const std::optional<Start>& start = {});

  // As Blend::at, for samples from first_sample() on. The first sample of a stage takes as long as
  // counting those before it.
  Blend::Pick at(int64_t sample);

  // The state before a sample: the stage it belongs to, and the place of each source.
  struct Counts {
    const Stage* stage;
    std::vector<int64_t> before, given;  // by source: when the stage began, and now
  };
  Counts counts(int64_t sample);

  // The place of that source before `samples`, to within one per stage.
  double expected(int source, int64_t samples) const;
  int stages() const { return static_cast<int>(stages_.size()); }
  int stage_of(int64_t sample) const;
  int64_t first_sample() const { return stages_.front().stage.first_sample; }

 private:
  struct Running {
    Stage stage;
    Blend blend;
    std::vector<int64_t> before;  // by source: given by the stages before; empty: not yet counted
  };
  Running& stage_with_counts(int64_t sample);
  // Adds the samples that the stage gives before sample `until`.
  void add_given(Running& stage, int64_t until, std::vector<int64_t>& counts) const;

  std::vector<Running> stages_;
};

}  // namespace tessera::data
