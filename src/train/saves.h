// The checkpoints of a run, each written while training continues (checkpoint/saving.h). One save
// at a time: the next waits for the one before. A save that fails never ends the run by itself: it
// is retried soon and at the end of the run.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/reserve.h"
#include "checkpoint/saving.h"
#include "comm/world.h"
#include "config/run_config.h"
#include "train/saved_steps.h"
#include "train/signals.h"

namespace tessera::train {

struct SavesOptions {
  Path folder;  // checkpoints/
  config::CheckpointSection rules;
  std::function<int64_t(int64_t steps)> tokens_after;  // that so many steps train on
  comm::World* world = nullptr;
  std::function<double()> now_s;
  std::function<void()> before_visible;          // see SaveRequest
  std::function<void(const std::string&)> say;   // a line for people
  std::function<void(const std::string&)> warn;  // a warning
  std::function<void(std::string_view)> waits;   // what the run now waits for
};

// All calls but before_update(), under_way() and retry_due() are collective: the same on every
// rank, at the same step.
class Saves {
 public:
  explicit Saves(SavesOptions options) : options_(std::move(options)) {}
  // Where the run starts from: what is put around its texts goes on into its own checkpoints.
  // `own`: it is a checkpoint of this run directory, which stays.
  void begin_from(const checkpoint::CheckpointHeader& origin, bool own) {
    origin_ = origin;
    if (own) steps_.start_from(origin.step);
  }
  // Sets space for one checkpoint aside, if checkpoint.reserve asks for it; `bytes`: this rank's.
  void reserve(int64_t bytes);

  bool due(int64_t step) const;  // by the rules
  // Begins to save `tensors`, which may not change until before_update() has returned. Does nothing
  // where this step is saved already. `prunes`: earlier checkpoints may be removed by the rules.
  void start(checkpoint::CheckpointHeader header, std::vector<checkpoint::StateTensor> tensors,
             bool prunes = true);
  // Before the state changes: returns when the save under way no longer needs it.
  void before_update();
  // Brings the save under way forward, without waiting for it. Throws NumericError on every rank if
  // the state of any rank is not finite: nothing is saved then. finish() does the same.
  void between_steps();
  void finish();  // waits until nothing is under way
  // The run directory was lost: later saves go to another folder, without a reserve and without
  // before_visible. REQUIRES: nothing is under way.
  void move_to(Path folder);

  // Why the newest save failed on one of the ranks; empty: it did not. It was a warning then.
  const std::string& failure() const { return failure_.why(); }
  bool failure_is_lasting() const { return failure_.is_lasting(); }  // another try would fail too
  bool retry_due() const;  // by this rank's clock: a save failed and is due to be retried

  bool is_saved(int64_t step) const { return steps_.is_started(step); }  // or being saved
  int64_t last() const { return steps_.last(); }  // step of the newest whole checkpoint; -1: none
  std::string last_path() const;                  // path of that checkpoint; empty: none
  // The newest checkpoint before `step` that this run saved or started from, and that still exists.
  std::string path_before(int64_t step) const { return steps_.path_before(options_.folder, step); }
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

  SavesOptions options_;
  std::optional<checkpoint::CheckpointHeader>
      origin_;  // header of the checkpoint that the run starts from
  SavedSteps steps_;
  SaveFailure failure_;
  checkpoint::SeenCheckpoints seen_;  // owned by the save's thread while it runs
  std::optional<checkpoint::Reserve> reserve_;
  bool reserve_told_ = false;  // whether the lack of space has been reported
  std::optional<checkpoint::Saving> saving_;
  bool published_ = false;  // all ranks have written
  double paused_s_ = 0;     // training waited for the save under way; then the most of all ranks
  std::set<std::string> warned_;
};

// ---- The last save of a run. Without it, completed steps are lost.

// Collective. Calls `start`, which begins the save of that step, until it has succeeded: at once
// after the reserve was released, else each second for `retry_s`, or until a further signal comes
// or the failure is permanent. Throws SharedError with the reason if it never succeeds.
void save_last_step(Saves& saves, int64_t step, const std::function<void()>& start,
                    comm::World& world, const StopSignals& signals, double retry_s,
                    const std::function<double()>& now_s);

}  // namespace tessera::train
