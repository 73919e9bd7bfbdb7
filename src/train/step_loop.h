// The steps of a run: training, validations, evaluations, saves, and every way in which a run ends.
//
// A completed step is never lost to an error, a signal or a full disk. Every error passes through
// end_with(), which saves the last completed step; the last save comes before the last validation;
// and an error that one rank alone may have (a bad row, a file) is agreed upon by all ranks before
// the next collective (comm/agree.h), so that all take part in that save.
#pragma once

#include "train/run_start.h"
#include "train/signals.h"

namespace tessera::train {

class StepLoop {
 public:
  // The run is started (RunStart), and its parts outlive this.
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
  // The newest checkpoint that this run saved or resumed from; empty: none exists.
  Path last_checkpoint() const;

  RunParts& parts_;
  const config::RunConfig& config_;  // parts_.config
  const TrainOptions& options_;
  comm::World& world_;
  const StopSignals& signals_;
  RunReporter& reporter_;
  TrainOutcome outcome_;
  int64_t tokens_;           // trained on
  double finished_s_ = 0;    // when the last step was finished
  bool ahead_ = false;       // the step under way need not be finished before the next begins
  bool retry_save_ = false;  // after the step under way
  StepVerdict verdict_ = StepVerdict::kGood;  // of the last step
  // Whether the state is that of the last completed step, and so may be saved.
  bool whole_ = true;
};

}  // namespace tessera::train
