// A sequence of blends: from given samples on, other sources or other weights are used.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/blend.h"

namespace tessera::data {

// A source that is part of several stages continues in each where the previous ones ended: none of
// its samples is given twice or omitted.
class BlendSchedule {
 public:
  struct Stage {
    int64_t first_sample = 0;     // in ascending order
    std::vector<int> sources;     // numbers of sources, without duplicates
    std::vector<double> weights;  // as Blend expects them
  };
  // The point at which a run resumes, in its first stage.
  struct Start {
    int64_t sample = 0;           // number of samples given in total
    std::vector<int64_t> before;  // per source: its next sample when the stage began
    std::vector<int64_t> given;   // per source: its next sample now
  };
  // `sources`: total number of sources. Without `start`, the first stage begins at sample 0.
  BlendSchedule(std::vector<Stage> stages, int sources, const std::optional<Start>& start = {});

  // Returns the source of a sample as Blend::at does, for samples from first_sample() on. The first
  // sample of a stage costs as much as counting the samples before it.
  Blend::Pick at(int64_t sample);

  // The state before a sample: its stage, and the next sample of each source.
  struct Counts {
    const Stage* stage;
    std::vector<int64_t> before, given;  // per source: when the stage began, and now
  };
  Counts counts(int64_t sample);

  // Returns about how many samples a source has given before `samples`, to within one per stage.
  double expected(int source, int64_t samples) const;
  int stages() const { return static_cast<int>(stages_.size()); }
  int stage_of(int64_t sample) const;
  int64_t first_sample() const { return stages_.front().stage.first_sample; }

 private:
  struct Running {
    Stage stage;
    Blend blend;
    std::vector<int64_t> before;  // per source: samples given by earlier stages; empty: unknown yet
  };
  Running& stage_with_counts(int64_t sample);
  // Adds the samples that the stage gives before sample `until`.
  void add_given(Running& stage, int64_t until, std::vector<int64_t>& counts) const;

  std::vector<Running> stages_;
};

}  // namespace tessera::data
