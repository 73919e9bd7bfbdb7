// The section `schedule` of the run file, and the learning rate as a pure function of the step.
//
// Steps count from 1; n = step − 1 is the number of updates made before this one, W = warm-up,
// E = the step count at which the decay ends, p = peak, f = minimum (a learning rate, not a ratio).
//
//   n ≤ W, W > 0    p · n / W                                      (the first update has rate 0)
//                   p, with a constant warm-up
//   n > E           f                                              (constant: p)
//   cosine          c = ½ (1 + cos π r),  r = (n − W) / (E − W)
//   linear          c = 1 − r
//   wsd             c = 1 until n = E − D, then 1 − (n − E + D) / D  (D = length of the last decay)
//   constant        p
//   inverse_sqrt    max(f, p √(max(W, 1) / max(n, 1)))
//
// and the minimum enters as   interpolate: f + (p − f) c      clamp: max(f, p c).
//
// That is Megatron-LM's rule (optimizer_param_scheduler.py), step for step. gpt-neox differs in
// two points: its minimum is a clamp, and its decay divides by E instead of E − W. NeMo's warm-up
// is p (n + 1) / (W + 1). WSD: Hu et al. 2024; inverse square root: Vaswani et al. 2017. T5's 1 /
// √max(n, 10^4) is inverse_sqrt with p = 0.01 and a constant warm-up of W = 10^4 steps.
#pragma once

#include <cstdint>
#include <string>

#include "base/key_errors.h"
#include "base/range.h"

namespace tessera::config {

enum class ScheduleKind : uint8_t { kCosine, kLinear, kInverseSqrt, kConstant, kWsd };
enum class WarmUp : uint8_t { kLinear, kConstant };
enum class MinLrMode : uint8_t { kInterpolate, kClamp };

constexpr const char* enum_names(ScheduleKind) { return "cosine|linear|inverse_sqrt|constant|wsd"; }
constexpr const char* enum_names(WarmUp) { return "linear|constant"; }
constexpr const char* enum_names(MinLrMode) { return "interpolate|clamp"; }

// Early stopping.
struct EarlyStopSection {
  std::string metric;
  int64_t patience = 0;

  static void fields(auto& self, auto&& visit) {
    visit("metric", self.metric,
          "dataset of data.validation whose loss is watched; empty: the only one");
    visit("patience", self.patience,
          "save and end after this many validations in a row without a smaller loss; 0: never",
          between(0, kExactIntegers));
  }
};

struct ScheduleSection {
  ScheduleKind kind = ScheduleKind::kCosine;
  int64_t steps = 1000, tokens = 0, warmup_steps = 0;
  WarmUp warmup = WarmUp::kLinear;
  double min_lr_ratio = 0;
  MinLrMode min_lr_mode = MinLrMode::kInterpolate;
  int64_t decay_steps = 0;
  EarlyStopSection stop;

  static constexpr Range kSteps = between(0, kExactIntegers);

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, "decay of the learning rate after the warm-up");
    visit("steps", self.steps, "length of the run; 0: load, save and end", kSteps);
    visit("tokens", self.tokens,
          "length of the run in tokens, padding included, such as 2e9: instead of steps, which "
          "follow from batch and data.sequence_length; 0: steps",
          kSteps);
    visit("warmup_steps", self.warmup_steps, "warm-up steps, before the decay", kSteps);
    visit("warmup", self.warmup, "linear: from zero to the peak; constant: at the peak, as T5's");
    visit("min_lr_ratio", self.min_lr_ratio, "minimum learning rate divided by the peak",
          between(0, 1));
    visit("min_lr_mode", self.min_lr_mode,
          "interpolate: min + (peak - min) x factor; clamp: max(min, peak x factor); the factor "
          "decays from 1 to 0");
    visit(
        "decay_steps", self.decay_steps,
        "steps until the minimum, warm-up excluded (wsd: length of the last decay); 0: to the end",
        kSteps);
    visit("stop", self.stop, "");
  }
};

void check(const ScheduleSection& schedule, KeyErrors& errors);

struct Schedule {
  ScheduleKind kind = ScheduleKind::kCosine;
  WarmUp warmup = WarmUp::kLinear;
  MinLrMode min_lr_mode = MinLrMode::kInterpolate;
  double peak = 0;           // learning rate after the warm-up
  double min_lr = 0;         // learning rate at the end
  int64_t warmup_steps = 0;  // W
  int64_t end_step = 0;      // E, at least W
  int64_t wsd_steps = 0;     // D, at most E − W; 0: a tenth of E, at least 1
};

// Returns the schedule of a run file; `peak`: optimizer.learning_rate.
Schedule make_schedule(const ScheduleSection& section, double peak);

// REQUIRES: step ≥ 1, 0 ≤ W ≤ E.
double learning_rate(const Schedule& schedule, int64_t step);

// Returns the share of the iterate of an update (from 1) in the average of schedule_free: the
// square of the largest learning rate so far divided by the sum of these squares over all updates
// up to it (Defazio et al. 2024); 0 where that sum is 0. The largest rate is that of the warm-up,
// then the peak.
double average_share(const ScheduleSection& schedule, int64_t update);

}  // namespace tessera::config
