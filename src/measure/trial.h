// A trial of `tessera tune`: a short run of this program in a child process.
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
  double limit_s = 300;           // timeout, after which the trial is killed
  double memory_gib = 0;          // address-space limit of each process; 0: unchanged
};

// A running trial. The constructor starts it in the new directory `folder`; the destructor kills it
// and removes the directory.
class Trial {
 public:
  Trial(const TrialOptions& options, const std::vector<std::string>& keys, Path folder,
        double now_s);
  ~Trial();

  // Returns the result after the trial has ended, else nothing. kOutOfMemory covers a run that was
  // rejected before its first step, a failed allocation and a kill by the kernel.
  std::optional<plan::TrialResult> poll(double now_s);
  // Returns the last line that the trial printed, which is the reason if it failed.
  std::string why() const;

 private:
  plan::TrialResult result(int code) const;

  const TrialOptions& options_;
  Path folder_;
  double started_s_;
  std::unique_ptr<launch::Child> child_;
};

// Returns the keys that every trial sets in addition to its point, overriding the run file.
std::vector<std::string> trial_keys(const Path& directory, int64_t steps);

// Returns the median duration in seconds of the steps after the first, or 0 if there are none.
double median_step_s(const std::string& metrics_lines);

}  // namespace tessera::measure
