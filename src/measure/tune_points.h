// What `tessera tune` may choose for a run: its knobs, and the points that make a run.
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

// "batch.micro=1,2,4"; numbers are ordered. Throws UsageError for anything else.
plan::Knob parse_knob(const std::string& text);

// Those of `given`, and of micro-batch, recomputation and (with several ranks) tensor, pipeline,
// ZeRO and sequence parallelism what is not given. Points that no run can have are left out; data
// ranks are what the others leave. Throws Error where no point is left.
plan::Space space_of(const TunedRun& run, const std::vector<plan::Knob>& given);

// The keys of a run file for a point, layout.data among them.
std::vector<std::string> keys_of(const TunedRun& run, const plan::Space& space,
                                 const plan::Point& point);

// What the machine of the cluster file would need for it.
struct Simulator {
  plan::Hardware hardware;
  Target target;

  // Returns kOutOfMemory if the run does not fit.
  plan::TrialResult run(const TunedRun& run, const plan::Space& space,
                        const plan::Point& point) const;
  plan::PriorBelief believe(const TunedRun& run, const plan::Space& space,
                            const plan::Point& point) const;

 private:
  plan::Prediction prediction(const TunedRun& run, const plan::Space& space,
                              const plan::Point& point) const;
};

// Every figure times a factor between 1 − share and 1 + share.
plan::Hardware perturbed(plan::Hardware hardware, double share, uint64_t seed);

}  // namespace tessera::measure
