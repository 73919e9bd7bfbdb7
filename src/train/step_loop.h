// The training loop: steps, validations, evaluations, saves, and all ways in which a run ends.
//
// No completed step is lost because of an error, a signal or a full disk. All errors pass through
// end_with(), which saves the last completed step. The last save comes before the last validation.
// An error that may occur on a single rank (a bad row, a file) is shared with all ranks before the
// next collective (comm/agree.h), so that all of them take part in that save.
#pragma once

#include "train/early_stop.h"
#include "train/run_start.h"
#include "train/signals.h"
#include "train/time_limit.h"

namespace tessera::train {

class StepLoop {
 public:
  // REQUIRES: the run is started (RunStart), and `parts` outlives this object.
  StepLoop(RunParts& parts, const TrainOptions& options, comm::World& world,
           const StopSignals& signals, RunReporter& reporter);

  // Trains to the last step, to a signal or to an error. Collective.
  TrainOutcome go();

 private:
  void catch_up();
  void run_steps();
  bool begin_step(int64_t step);
  void one_step(int64_t step);
  void watched_step(int64_t step);
  void finish_steps(int64_t left);
  void finish();
  [[noreturn]] void end_with(const std::exception& error);
  void complete(const StepResult& r);
  void count_step(const StepResult& r);
  void finish_step(const StepResult& r);
  bool ends_alone(int64_t step) const;
  void measure();
  void after_step(const StepResult& r, double seconds);
  [[noreturn]] void stop_at_bad_number(const StepResult& r, bool updated = false);
  [[noreturn]] void stop_diverged();
  void validate(int64_t step);
  void evaluate(int64_t step);
  void save_checkpoint(int64_t step, bool prunes = true);
  void save_last(bool prunes = true);
  bool validates_at(int64_t step) const;
  bool evaluates_at(int64_t step) const;
  double since(double s) const { return options_.now_s() - s; }
  // Returns the newest checkpoint that this run saved or resumed from; empty if there is none.
  Path last_checkpoint() const;

  RunParts& parts_;
  const config::RunConfig& config_;  // parts_.config
  const TrainOptions& options_;
  comm::World& world_;
  const StopSignals& signals_;
  RunReporter& reporter_;
  TrainOutcome outcome_;
  int64_t tokens_;  // loss tokens so far
  TimeLimit time_limit_;
  EarlyStop early_stop_;
  double finished_s_ = 0;    // time at which the last step was finished
  bool ahead_ = false;       // the current step is started without waiting for the one before it
  bool retry_save_ = false;  // a failed save is retried after the current step
  StepVerdict verdict_ = StepVerdict::kGood;  // for the last step
  // True if the state is that of the last completed step, so that it may be saved.
  bool whole_ = true;
};

}  // namespace tessera::train
