// The checkpoints of a run, each written while training goes on (checkpoint/saving.h). One save at
// a time: the next waits for the one before.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/saving.h"
#include "comm/world.h"
#include "train/run_sections.h"

namespace tessera {

struct SavesOptions {
  Path folder;  // checkpoints/
  CheckpointSection rules;
  std::function<int64_t(int64_t steps)> tokens_after;  // that so many steps train on
  World* world = nullptr;
  std::function<double()> now_s;
  std::function<void()> before_visible;         // see SaveRequest
  std::function<void(const std::string&)> say;  // a line for people
  std::function<void(std::string_view)> waits;  // what the run now waits for
};

// All calls but before_update() and under_way() are the same on every rank, at the same step.
class Saves {
 public:
  explicit Saves(SavesOptions options) : options_(std::move(options)) {}
  // Where the run starts from: what is put around its texts goes on into its own checkpoints.
  void begin_from(const CheckpointHeader& origin) { origin_ = origin; }

  bool due(int64_t step) const;  // by the rules
  // Begins to save `tensors`, which may not change until before_update() has returned. Nothing
  // where this step is saved already. `prunes`: earlier checkpoints may be removed by the rules.
  // Throws Error, also for the save before.
  void start(CheckpointHeader header, std::vector<StateTensor> tensors, bool prunes = true);
  // Before the state changes: returns when the save under way no longer needs it.
  void before_update();
  // Between two steps: moves on what waits for the other ranks, and tells what is over. Throws
  // Error if the save failed on this rank; if on another, waits until that one ends the run. Throws
  // NumericError on every rank if the state of any rank is not finite: nothing is saved.
  void between_steps();
  void finish();  // waits until nothing is under way

  bool is_saved(int64_t step) const { return started_ == step; }  // or being saved
  // The run starts from its own checkpoint of this step, which stays.
  void resumed(int64_t step) { started_ = last_ = started_from_ = step; }
  int64_t last() const { return last_; }  // step of the newest whole checkpoint; -1: none
  std::string last_path() const;          // of that checkpoint; empty: none
  int64_t under_way() const { return saving_ ? saving_->step() : -1; }

 private:
  bool passes_tokens(int64_t step) const;
  bool all_written();
  [[noreturn]] void refuse_non_finite();
  void settle();

  SavesOptions options_;
  std::optional<CheckpointHeader> origin_;  // of where the run starts
  int64_t started_ = -1, last_ = -1, started_from_ = -1;
  std::vector<int64_t> saved_;  // steps, by this process
  SeenCheckpoints seen_;        // of the save's thread while there is one
  std::optional<Saving> saving_;
  bool agreed_ = false;  // that all ranks have written
  double paused_s_ = 0;  // training stood still for the save under way; then the most of all ranks
};

}  // namespace tessera
