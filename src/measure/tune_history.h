// Stores the trials of `tessera tune` in a file, so that an interrupted tuning can resume.
#pragma once

#include "base/config.h"
#include "base/file.h"
#include "base/tree.h"
#include "measure/tune_points.h"
#include "plan/tune.h"

namespace tessera::measure {

struct PastTrial {
  size_t point = 0;
  plan::TrialResult result;
};

// Returns the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them: the entries of
// that variable, or, without it, the numbers of the driver's GPUs.
std::vector<std::string> visible_gpus();

// Everything except the point that the time of a trial depends on. A stored trial counts only if
// all of it is equal.
struct TrialConditions {
  std::string run;      // hash of all keys except the knobs; trial_keys() override the run file
  std::string machine;  // CPU and GPU models; if simulated, its name and a hash of its numbers
  int64_t ranks = 1, steps = 5;
  bool simulated = false;

  static void fields(auto& self, auto&& visit) {
    visit("run", self.run, "");
    visit("machine", self.machine, "");
    visit("ranks", self.ranks, "");
    visit("steps", self.steps, "");
    visit("simulated", self.simulated, "");
  }
};

// Returns the conditions of trials of this run. `simulated` is the machine of the simulator, or
// nullptr if the trials run on this machine.
TrialConditions conditions_of(const TunedRun& run, const plan::Space& space, int64_t steps,
                              const plan::Hardware* simulated);

// Returns the trials as
// {"trials": [{"point": {"batch.micro": "2", …}, "outcome": "ran", "seconds": 0.41}, …]}.
Tree as_tree(const plan::Space& space, const std::vector<PastTrial>& trials);

// Adds a trial to the file, with its conditions as {"of": {"run": …}}. All others stay as they are.
// The file is replaced atomically.
void add_to_history(const Path& path, const plan::Space& space, const TrialConditions& conditions,
                    const PastTrial& trial);

// Returns the trials of the file that have these conditions and are points of the space; none if
// there is no file. Throws Error for a file that is not a history.
std::vector<PastTrial> read_history(const Path& path, const plan::Space& space,
                                    const TrialConditions& conditions);

}  // namespace tessera::measure
