// A trial of `tessera tune`: a short run of this very program as a child process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "launch/child.h"
#include "plan/tune.h"

namespace tessera::measure {

struct TrialOptions {
  std::string run;                // the run file
  std::vector<std::string> keys;  // key=value of the command line, before those of the trial
  int64_t ranks = 1, steps = 5;   // the first step is not measured
  double limit_s = 300;           // then it is ended: a time-out
  double memory_gib = 0;          // address space of each process; 0: as it is
};

// Starts when made. Its directory is `folder`, which goes away with it.
class Trial {
 public:
  Trial(const TrialOptions& options, const std::vector<std::string>& keys, Path folder,
        double now_s);
  ~Trial();

  // What came of it, once it is over. Out of memory is what was refused before the first step, what
  // the system gave no more of, and what the kernel killed.
  std::optional<plan::TrialResult> poll(double now_s);
  // The last words of one that failed.
  std::string why() const;

 private:
  plan::TrialResult result(int code) const;

  const TrialOptions& options_;
  Path folder_;
  double started_s_;
  std::unique_ptr<launch::Child> child_;
};

// Returns the keys that every trial sets besides its point, whatever the run file has.
std::vector<std::string> trial_keys(const Path& directory, int64_t steps);

// Median of the steps after the first; 0 where there are none.
double median_step_s(const std::string& metrics_lines);

}  // namespace tessera::measure
