// Judges the result of each step: whether the run may continue, and what to report.
//
//   loss not finite                   stop: no loss scale can change a forward pass
//   gradients not finite, fp16        skip the step and lower the scale; stop at the smallest one
//   gradients not finite, otherwise   stop
//   the loss has diverged             save this step, then stop (divergence.h)
//   gradients exactly 0, some steps   warn once: the model no longer learns
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "train/divergence.h"
#include "train/loss_scale.h"
#include "train/trainer.h"

namespace tessera::train {

enum class StepVerdict : uint8_t { kGood, kSkipped, kBadNumber, kDiverged };

class StepJudge {
 public:
  explicit StepJudge(const config::RunConfig& config);

  StepVerdict judge(const StepResult& r);

  bool scales() const { return scales_; }
  double loss_scale() const { return scales_ ? scale_.scale() : 1; }  // for the next step
  // Returns true if old checkpoints may be removed when a checkpoint with this loss is saved. They
  // may not while the loss exceeds the limit of divergence.h.
  bool may_prune(double loss) const { return !guard_.is_high() && !guard_.is_high(loss); }
  // Returns true if a state with this loss should be tested (Trainer::can_continue) before it is
  // saved. Always false with a loss scale, whose overflow would look the same.
  bool is_suspicious(double loss) const { return !scales_ && guard_.is_suspicious(loss); }
  // Returns the last step of this process that updated the weights; 0 if there is none.
  int64_t last_update() const { return last_update_; }
  // Returns true if a run that ends now has diverged.
  bool ends_diverged() const { return guard_.diverged_at_end(); }

  // Returns a warning about the step that was judged last, or an empty string. `checkpoint` is the
  // step of the last checkpoint; negative if there is none.
  std::string warning(const StepResult& r, int64_t checkpoint) const;
  // Return the messages of the errors that end a run, at step `r` or after divergence. `updated`:
  // the loss is that of the weights after the step. `good` is the last checkpoint whose next update
  // was finite; empty if there is none.
  std::string bad_number_text(const StepResult& r, bool updated, const std::string& first_bad,
                              const std::string& good) const;
  std::string divergence_text(int64_t step) const;

  // Write the state to a checkpoint's `state`, an object that may have other members, and read it.
  void save(Tree& state) const;
  void restore(const Tree& state);

 private:
  std::string go_back(int64_t step) const;
  void count_zero_gradient(const StepResult& r);

  std::string run_;  // the run file, as the user gave it
  config::DivergenceSection rule_;
  bool scales_;
  LossScale scale_;
  DivergenceGuard guard_;
  std::vector<double> norms_;  // gradient norms of the last steps
  int64_t last_update_ = 0;
  int64_t zero_gradients_ = 0;  // number of last consecutive steps with a gradient of 0
  bool stopped_learning_ = false, stop_told_ = false;
};

}  // namespace tessera::train
