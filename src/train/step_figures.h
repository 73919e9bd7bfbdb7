// Rates of a run: what a step reaches, as a share of what this machine can do, and the time left.
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
  // Measures the machine's matrix rate. For the first rank, after the first step, which need not
  // wait for it. `ranks`: of the run.
  void measure(const config::RunConfig& config, runtime::PreparedKernels& kernels, int64_t ranks,
               const std::function<double()>& now_s);

  // Sets the rates of `m`, a step of that many sequences, from its time; `tokens` have a loss.
  void add(StepMetrics& m, double tokens, int64_t sequences);
  // Returns the progress after the step that was added last.
  ProgressState progress(const StepMetrics& m, double tokens, int64_t last_step) const;
  double matrix_rate() const { return matrix_rate_; }
  // Why a CPU's rate could not be measured; empty if it was.
  const std::string& rate_error() const { return rate_error_; }

 private:
  double matrix_rate_ = 0, sequence_flops_ = 0, exposed_share_ = -1;
  std::string rate_error_;
  std::deque<double> seconds_;  // of the last steps
};

}  // namespace tessera::train
