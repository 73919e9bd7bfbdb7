// The search space of `tessera tune`: the knobs of a run, and the points that are valid runs.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "ir/target.h"
#include "plan/predict.h"
#include "plan/tune.h"

namespace tessera::measure {

struct TunedRun {
  std::string run;                // the run file
  std::vector<std::string> keys;  // key=value of the command line
  int64_t ranks = 1;
  config::DataUse data =
      config::DataUse::kRead;  // kIgnored: trials are simulated, which needs no data
};

// Parses a knob such as "batch.micro=1,2,4"; it is ordered if all choices are numbers. Throws
// UsageError for any other form.
plan::Knob parse_knob(const std::string& text);

// Returns the space of the knobs in `given`. If there are none, the knobs are the micro-batch size,
// recomputation and, with several ranks, the degrees of parallelism, sequence parallelism and ZeRO.
// Points that are not valid runs are omitted. layout.data follows from the other degrees and the
// number of ranks, unless it is a knob. Throws Error if no point is valid.
plan::Space space_of(const TunedRun& run, const std::vector<plan::Knob>& given);

// Returns the run-file keys of a point as "key=value", including layout.data.
std::vector<std::string> keys_of(const TunedRun& run, const plan::Space& space,
                                 const plan::Point& point);

// Predicts trials on the machine of a cluster file instead of running them.
struct Simulator {
  plan::Hardware hardware;
  Target target;

  // Returns the predicted time per step, or kOutOfMemory if the run does not fit.
  plan::TrialResult run(const TunedRun& run, const plan::Space& space,
                        const plan::Point& point) const;
  // Returns the predicted time per step and the log-odds that the run fits in memory.
  plan::PriorBelief believe(const TunedRun& run, const plan::Space& space,
                            const plan::Point& point) const;

 private:
  plan::Prediction prediction(const TunedRun& run, const plan::Space& space,
                              const plan::Point& point) const;
};

// Multiplies each number of `hardware` by a random factor in [1 - share, 1 + share).
plan::Hardware perturbed(plan::Hardware hardware, double share, uint64_t seed);

}  // namespace tessera::measure
