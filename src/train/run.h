// One run: the implementation of train() (loop.h). run_start.cc prepares everything, loop.cc
// trains.
//
// A completed step is never lost to an error, a signal or a full disk. After start() every error
// passes through end_with(), which saves the last completed step; the last save comes before the
// last validation; and an error that one rank alone may have (a bad row, a file) is agreed upon by
// all ranks before the next collective (comm/agree.h), so that all take part in that save.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/schedule.h"
#include "data/tokenizer.h"
#include "train/load_start.h"
#include "train/loop.h"
#include "train/run_dumps.h"
#include "train/run_record.h"
#include "train/run_validation.h"
#include "train/saves.h"
#include "train/signals.h"
#include "train/step_figures.h"
#include "train/step_judge.h"
#include "train/trainer.h"
#include "train/training_input.h"

namespace tessera {

inline bool is_multiple(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

class Run {
 public:
  Run(RunConfig config, const TrainOptions& options)
      : config_(std::move(config)),
        options_(options),
        alone_(options.world ? nullptr : self_world()),
        world_(options.world ? *options.world : *alone_),
        first_(world_.rank() == 0),
        log_(!first_ ? LogTerminal::kOff : (options.json ? LogTerminal::kErr : LogTerminal::kOut)),
        progress_(first_ ? options.terminal : Progress::Output{}) {}

  TrainOutcome go();

 private:
  void prepare();
  void open_inputs();
  void start();
  LoadedStart resume();
  void begin_record(const LoadedStart& loaded);
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
  void make_saves();
  void save_checkpoint(int64_t step, bool prunes = true);
  void save_last(bool prunes = true);
  bool asked_to_stop() const;
  void say(const std::string& line);
  void warn(const std::string& line);
  void doing(int64_t step, std::string_view what) const;
  void doing(const OpStart& at) const;
  const Tokenizer& tokenizer();
  bool evaluates() const { return !config_.evaluation.tasks.empty(); }
  double rate() const { return learning_rate(schedule_, trainer_->next_update()); }
  bool validates_at(int64_t step) const {
    return step == last_step_ || is_multiple(step, config_.metrics.validate_every_steps);
  }
  bool evaluates_at(int64_t step) const {
    return evaluates() && (step == last_step_ || is_multiple(step, config_.evaluation.every_steps));
  }
  double since(double s) const { return options_.now_s() - s; }
  Path directory() const { return config_.run.directory; }
  // The newest checkpoint that this run saved or resumed from; empty: none exists.
  Path last_checkpoint() const {
    const Path path = saves_->last_path();
    return std::filesystem::exists(path) ? path : Path();
  }

  RunConfig config_;
  const TrainOptions& options_;
  std::unique_ptr<World> alone_;  // where no world was given
  World& world_;
  bool first_;  // true on rank 0, which writes files and logs
  Log log_;
  Progress progress_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<StepJudge> judge_;  // made from the resolved configuration
  std::unique_ptr<TrainingInput> input_;
  StartingPoint start_;                  // the same on all ranks
  std::optional<RunPosition> position_;  // of the checkpoint that the run continues
  std::optional<RunValidation> validation_;
  std::optional<RunRecord> record_;  // of the first rank
  std::string tokenizer_bytes_;      // for checkpoints; of the first rank
  std::optional<Saves> saves_;
  std::optional<RunDumps> dumps_;
  Schedule schedule_;
  StepFigures figures_;  // of the first rank
  int64_t first_step_ = 1, last_step_ = 0, tokens_ = 0;
  double finished_s_ = 0;  // the last step
  TrainOutcome outcome_;
  int64_t step_ = 0;         // under way
  int64_t state_bytes_ = 0;  // of this rank's part of a checkpoint
  StopSignals signals_;
  bool ahead_ = false;       // the step under way need not be finished before the next begins
  bool retry_save_ = false;  // after the step under way
  StepVerdict verdict_ = StepVerdict::kGood;  // of the last step
  // Whether the state is that of the last completed step, and so may be saved.
  bool whole_ = true;
};

}  // namespace tessera
