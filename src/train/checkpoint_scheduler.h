// Schedules the checkpoints of a run. Each is written while training continues
// (checkpoint/async_save.h), one at a time: a save waits for the one before it. A failed save never
// ends the run: it is retried soon, and at the end of the run.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/async_save.h"
#include "checkpoint/reserve.h"
#include "comm/world.h"
#include "config/run_config.h"
#include "train/saved_steps.h"
#include "train/signals.h"

namespace tessera::train {

struct CheckpointSchedulerOptions {
  Path folder;  // the directory checkpoints/ of the run
  config::CheckpointSection rules;
  std::function<int64_t(int64_t steps)> tokens_after;  // tokens of the first `steps` steps
  comm::World* world = nullptr;
  std::function<double()> now_s;
  std::function<void()> before_visible;          // see SaveRequest
  std::function<void(const std::string&)> say;   // writes a log line
  std::function<void(const std::string&)> warn;  // writes a warning
  std::function<void(std::string_view)> waits;   // reports what the run is now waiting for
};

// All calls except before_update(), under_way() and retry_due() are collective: every rank makes
// them at the same step.
class CheckpointScheduler {
 public:
  explicit CheckpointScheduler(CheckpointSchedulerOptions options) : options_(std::move(options)) {}
  // Sets the checkpoint that the run starts from. Its rules for special tokens around texts are
  // copied to the checkpoints of the run. `own`: it is a checkpoint of this run directory.
  void begin_from(const checkpoint::CheckpointHeader& origin, bool own) {
    origin_ = origin;
    if (own) steps_.start_from(origin.step);
  }
  // Reserves disk space for one checkpoint if checkpoint.reserve is set. `bytes` is the part of
  // this rank.
  void reserve(int64_t bytes);

  bool due(int64_t step) const;  // true if the rules require a checkpoint of this step
  // Begins to save `tensors`, which may not change until before_update() has returned. Does nothing
  // if this step is saved already. `prunes`: earlier checkpoints may be removed by the rules.
  void start(checkpoint::CheckpointHeader header, std::vector<checkpoint::StateTensor> tensors,
             bool prunes = true);
  // Call it before the state changes. Returns when the save in progress no longer needs the state.
  void before_update();
  // Advances the save in progress without waiting for it. Throws NumericError on all ranks if the
  // state of any rank is not finite; nothing is saved then. finish() throws the same error.
  void between_steps();
  void finish();  // waits until no save is in progress
  // Makes later saves go to another directory, without a reserve and without before_visible, after
  // the ownership of the run directory was lost. REQUIRES: no save is in progress.
  void move_to(Path folder);

  // Returns why the newest save failed on one of the ranks; empty if it did not. A warning has
  // reported it.
  const std::string& failure() const { return failure_.why(); }
  bool failure_is_lasting() const { return failure_.is_lasting(); }  // a retry would fail too
  bool retry_due() const;  // true if a save failed and this rank's clock has reached the retry

  bool is_saved(int64_t step) const { return steps_.is_started(step); }  // or is being saved
  int64_t last() const {
    return steps_.last();
  }                               // step of the newest complete checkpoint; -1: none
  std::string last_path() const;  // path of that checkpoint; empty: none
  // Returns the newest checkpoint before `step` that this run saved or started from and that still
  // exists; empty if there is none.
  std::string path_before(int64_t step) const { return steps_.path_before(options_.folder, step); }
  // Returns the duration of the longest save of this process; 0 before the first is complete.
  double longest_save_s() const { return longest_save_s_; }
  int64_t under_way() const { return saving_ ? saving_->step() : -1; }

 private:
  checkpoint::SaveRequest request(checkpoint::CheckpointHeader header,
                                  std::vector<checkpoint::StateTensor> tensors, bool prunes);
  bool passes_tokens(int64_t step) const;
  void advance();
  [[noreturn]] void refuse_non_finite();
  void settle();
  void fail(const std::string& own);
  void abandon();
  void take_reserve();

  CheckpointSchedulerOptions options_;
  // Header of the checkpoint that the run starts from.
  std::optional<checkpoint::CheckpointHeader> origin_;
  SavedSteps steps_;
  SaveFailure failure_;
  checkpoint::SeenCheckpoints seen_;  // used by the thread of a save while it runs
  std::optional<checkpoint::Reserve> reserve_;
  bool reserve_told_ = false;  // true if the lack of space has been reported
  std::optional<checkpoint::AsyncSave> saving_;
  bool published_ = false;  // true after all ranks have written and rank 0 began to publish
  double paused_s_ = 0;  // how long training waited for this save; finally the maximum over ranks
  double longest_save_s_ = 0;
  std::set<std::string> warned_;
};

// ---- The last save of a run. Completed steps would be lost without it.

// Calls `start`, which begins the save of that step, until it succeeds: again at once if disk space
// was freed, else once per second for `retry_s` seconds, or until a further signal arrives or the
// failure is permanent. Throws SharedError with the reason if no attempt succeeds. Collective.
void save_last_step(CheckpointScheduler& saves, int64_t step, const std::function<void()>& start,
                    comm::World& world, const StopSignals& signals, double retry_s,
                    const std::function<double()>& now_s);

}  // namespace tessera::train
