// Judges each step by its loss and by whether its gradients are finite, and writes the messages
// about failures.
#include "train/step_judge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/count.h"

namespace tessera::train {
namespace {

// The number of gradient norms before a bad step that its message lists.
constexpr size_t kNorms = 5;
constexpr int64_t kZeroGradients = 5;

// Returns how many outcomes a uniform guess chooses from: tokens, or both answers of a pair.
double choices_of(const config::RunConfig& config) {
  if (config.objective.has_pairs()) return 2;
  return static_cast<double>(std::max<int64_t>(config.model.vocabulary, 1));
}

}  // namespace

StepJudge::StepJudge(const config::RunConfig& config)
    : run_(config.source.empty() ? "RUN" : config.source),
      rule_(config.divergence),
      scales_(config.precision == compile::Precision::kFp16),
      scale_(config.loss_scale),
      guard_(config.divergence, std::log(choices_of(config))) {}

StepVerdict StepJudge::judge(const StepResult& r) {
  if (!std::isfinite(r.loss)) return StepVerdict::kBadNumber;
  // With fp16, overflows are expected: the loss scale decides whether the step may be skipped.
  const bool goes_on = scales_ ? scale_.update(r.finite) : r.finite;
  if (!goes_on) return StepVerdict::kBadNumber;
  norms_.push_back(r.grad_norm);
  if (norms_.size() > kNorms) norms_.erase(norms_.begin());
  if (r.finite) last_update_ = r.step;
  count_zero_gradient(r);
  // Skipped steps count too: their loss is a valid loss of the same weights.
  guard_.add(r.loss);
  if (guard_.diverged()) return StepVerdict::kDiverged;
  return r.finite ? StepVerdict::kGood : StepVerdict::kSkipped;
}

// Counts steps with a loss above 0 and a gradient of exactly 0: such a loss cannot fall any
// further.
void StepJudge::count_zero_gradient(const StepResult& r) {
  zero_gradients_ = r.finite && r.grad_norm == 0 && r.loss > 0 ? zero_gradients_ + 1 : 0;
  stopped_learning_ = zero_gradients_ >= kZeroGradients && !std::exchange(stop_told_, true);
}

std::string StepJudge::go_back(int64_t step) const {
  return fmt::format("tessera train {} --from-step {}", run_, step);
}

std::string StepJudge::warning(const StepResult& r, int64_t checkpoint) const {
  if (stopped_learning_)
    return fmt::format(
        "the gradient norm has been exactly 0 for {} steps, up to step {}, while the loss is "
        "{:.4g}: the model no longer learns. What often helps: a lower learning rate, a longer "
        "warm-up{}. "
        "To go back to an earlier step: tessera train {} --from-step N.",
        zero_gradients_, format_count(r.step), r.loss,
        scales_ ? ", a larger loss_scale.initial (fp16 rounds small gradients to 0)" : "", run_);
  if (!guard_.spiked()) return "";
  return fmt::format(
      "the loss of step {} is {:.4g}; the median of the steps before it is {:.4g}. If it stays "
      "high, {}.",
      format_count(r.step), r.loss, guard_.median_before(),
      checkpoint < 0 ? "start again with a lower learning rate"
                     : "go back to a checkpoint: " + go_back(checkpoint));
}

std::string StepJudge::bad_number_text(const StepResult& r, bool updated,
                                       const std::string& first_bad,
                                       const std::string& good) const {
  std::string before;
  for (const double n : norms_) before += fmt::format(" {:.3g}", without_nan_sign(n));
  const std::string what =
      !std::isfinite(r.loss) ? fmt::format("the loss is {}", without_nan_sign(r.loss))
      : scales_              ? fmt::format(
                                   "the gradient is not finite even at the lowest loss scale "
                                                "(loss_scale.min = {:g})",
                                   scale_.min())
                : "the gradient is not finite";
  return fmt::format(
      "{} {} step {}. Run again with checks, the first bad value is\n    {}.\n  Gradient norm over "
      "the last {} steps:{}. {} What often helps: a lower learning rate, clip_norm, a longer "
      "warm-up.",
      what, updated ? "after" : "at", format_count(r.step), first_bad, norms_.size(), before,
      good.empty()
          ? "There is no good checkpoint."
          : fmt::format(
                "Last good checkpoint: {}. To go back to it: tessera train {} --from-step {}.",
                good, run_, good.substr(good.rfind('/') + 1)));
}

std::string StepJudge::divergence_text(int64_t step) const {
  return fmt::format(
      "the loss has diverged at step {}: its median over the last steps is {:.4g}. It began at "
      "{:.4g}, and the limit is {:.4g} (divergence.ratio = {:g}). Step {} is saved. Lower the "
      "learning rate or lengthen the warm-up, and start from a step before the rise: {}. "
      "divergence.ratio=0 disables this check.",
      format_count(step), guard_.recent_median(), guard_.first_loss(), guard_.limit(), rule_.ratio,
      format_count(step), "tessera train " + run_ + " --from-step N");
}

void StepJudge::save(Tree& state) const {
  const Tree scale = scales_ ? scale_.state() : Tree::object();
  for (const auto& [key, value] : *scale.as_members()) state.set(key, value);
  guard_.save(state);
}

void StepJudge::restore(const Tree& state) {
  if (scales_) scale_.restore(state);
  guard_.restore(state);
}

}  // namespace tessera::train
