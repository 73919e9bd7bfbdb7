// The rates of a run: those of a step, their fraction of the machine's rate, and the time left.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "config/run_config.h"
#include "runtime/prepared_kernels.h"
#include "train/metrics.h"
#include "train/progress.h"

namespace tessera::train {

class StepFigures {
 public:
  // Measures the machine's matrix rate. Rank 0 calls it after the first step, so that the start
  // does not wait for it. `ranks` is the number of ranks of the run.
  void measure(const config::RunConfig& config, runtime::PreparedKernels& kernels, int64_t ranks,
               const std::function<double()>& now_s);

  // Sets the rates of a step from its duration, its loss tokens and its number of sequences.
  void add(StepMetrics& m, double tokens, int64_t sequences);
  // Returns the progress after the step that was added last.
  ProgressState progress(const StepMetrics& m, double tokens, int64_t last_step) const;
  double matrix_rate() const { return matrix_rate_; }
  // Returns why the rate of a CPU could not be measured; empty if it was.
  const std::string& rate_error() const { return rate_error_; }

 private:
  double matrix_rate_ = 0, sequence_flops_ = 0, exposed_share_ = -1;
  std::string rate_error_;
  std::deque<double> seconds_;  // durations of the last steps
};

}  // namespace tessera::train
