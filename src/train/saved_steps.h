// The state of a run's saves: which steps are saved, and why the newest save failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace tessera::train {

// The steps of the checkpoints that this process saved or started from.
class SavedSteps {
 public:
  void start_from(int64_t step) { started_ = last_ = started_from_ = step; }
  void start(int64_t step) { started_ = step; }
  void complete(int64_t step);
  void give_up() { started_ = last_; }  // the started save failed
  void forget();                        // forgets the steps that this process saved

  bool is_started(int64_t step) const { return started_ == step; }  // or saved
  int64_t last() const { return last_; }                            // -1: none
  int64_t started_from() const { return started_from_; }            // -1: none
  const std::vector<int64_t>& saved() const { return saved_; }      // by this process
  // Returns the path of the newest checkpoint in `folder` before `step` that still exists; empty if
  // there is none.
  std::string path_before(const Path& folder, int64_t step) const;

 private:
  int64_t started_ = -1, last_ = -1, started_from_ = -1;
  std::vector<int64_t> saved_;
};

// The reason why the newest save failed on one of the ranks, and the time of the next retry.
class SaveFailure {
 public:
  void set(std::string why, bool is_lasting, double retry_at_s);
  void forget();     // the failure concerns another folder
  void overcome() {  // a save succeeded
    why_.clear();
    reported_.clear();
  }

  const std::string& why() const { return why_; }  // empty: the save did not fail
  bool is_lasting() const { return lasting_; }     // a retry would fail too
  bool retry_due(double now_s) const { return !why_.empty() && now_s >= retry_at_s_; }
  // Returns true once per reason: a retry that fails for the same reason is not reported again.
  bool is_news();

 private:
  std::string why_, reported_;
  bool lasting_ = false;
  double retry_at_s_ = 0;
};

}  // namespace tessera::train
