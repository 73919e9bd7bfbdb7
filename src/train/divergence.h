// Watches the losses of a run for divergence and for spikes. Pure: losses in, findings out.
//
// Divergence. Let a be the loss of the run's first step and u = ln(vocabulary), the loss of a
// uniform guess, or ln(2) with pairs of answers. The run has diverged when both the median loss of
// its last `steps` steps and the loss of the last step exceed
//   limit = max(ratio · a, u)
// A run that ends earlier is judged by the steps that it has. A run that recovers is not stopped.
// Noise does not trigger this: half of the last steps must be worse than a guess and far worse than
// the beginning. Neither does a fine-tuning run, whose a is far below u, nor a resumed one, whose a
// is in its checkpoint.
//
// Spike. With m the median of the last 50 losses and s = 1.4826 · median |x − m|, which is the
// standard deviation of normal noise, the loss x of a step is a spike when
//   x − m > spike · max(s, 0.02 m)
// At least 20 losses must be known. One spike is reported per `steps` steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/tree.h"
#include "config/run_section.h"

namespace tessera::train {

class DivergenceGuard {
 public:
  // `uniform_loss` is u above.
  DivergenceGuard(const config::DivergenceSection& rule, double uniform_loss)
      : rule_(rule), uniform_loss_(uniform_loss) {}

  // Adds the finite loss of the next step.
  void add(double loss);

  // Returns true if the last add() found a spike that should be reported.
  bool spiked() const { return spiked_; }
  double median_before() const { return median_before_; }  // median of the losses before a spike

  // Returns true if the last loss exceeds the limit. No checkpoint should be removed while it does.
  bool is_high() const { return !recent_.empty() && is_high(recent_.back()); }
  bool is_high(double loss) const { return rule_.ratio > 0 && first_ && loss > limit(); }
  // Returns true if a loss is above twice the larger of first loss and uniform loss.
  bool is_suspicious(double loss) const { return loss > 2 * std::max(first_loss(), uniform_loss_); }
  bool diverged() const;         // judged by `steps` losses
  bool diverged_at_end() const;  // judged at the end of the run, by at most `steps` losses
  double recent_median() const;  // median of at most `steps` losses
  double first_loss() const { return first_ ? *first_ : 0; }
  double limit() const;

  // Writes the first loss to a checkpoint's state, and reads it. After restore() of a tree without
  // it, the next loss counts as the first.
  void save(Tree& state) const;
  void restore(const Tree& state);

 private:
  void look_for_spike(double loss);

  config::DivergenceSection rule_;
  double uniform_loss_;
  std::optional<double> first_;
  std::deque<double> recent_;   // at most `steps` losses after the first
  std::deque<double> history_;  // at most 50 losses before this one
  int64_t cooldown_ = 0;        // number of next steps in which no spike is reported
  bool spiked_ = false;
  double median_before_ = 0;
};

}  // namespace tessera::train
