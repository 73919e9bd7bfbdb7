// The learning rate of a step, by the formulas of schedule.h.
#include "config/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/real.h"

namespace tessera::config {
namespace {

// Returns the decay from 1 to 0 after `n` updates, W < n <= E.
double decay_share(const Schedule& s, int64_t n) {
  const double r = ratio(n - s.warmup_steps, std::max<int64_t>(s.end_step - s.warmup_steps, 1));
  switch (s.kind) {
    case ScheduleKind::kCosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * r));
    case ScheduleKind::kLinear:
      return 1 - r;
    case ScheduleKind::kWsd: {
      // Without a length, the decay is the last tenth of the run, and at most what follows the
      // warm-up.
      const int64_t asked = s.wsd_steps > 0 ? s.wsd_steps : std::max<int64_t>(s.end_step / 10, 1);
      const int64_t d = std::min(asked, std::max<int64_t>(s.end_step - s.warmup_steps, 1));
      const int64_t start = s.end_step - d;
      return n <= start ? 1 : 1 - ratio(n - start, d);
    }
    case ScheduleKind::kConstant:
    case ScheduleKind::kInverseSqrt:
      break;
  }
  return 1;
}

}  // namespace

void check(const ScheduleSection& s, KeyErrors& errors) {
  if (s.warmup_steps > s.steps)
    errors.add("schedule.warmup_steps", "= {} is more than schedule.steps = {}", s.warmup_steps,
               s.steps);
  else if (s.kind == ScheduleKind::kWsd && s.warmup_steps + s.decay_steps > s.steps)
    errors.add("schedule.decay_steps", "= {} plus warmup_steps = {} exceeds schedule.steps = {}",
               s.decay_steps, s.warmup_steps, s.steps);
}

Schedule make_schedule(const ScheduleSection& section, double peak) {
  const bool wsd = section.kind == ScheduleKind::kWsd;
  // decay_steps has two meanings: the length of the last decay for wsd, else the steps until the
  // minimum.
  const int64_t to_minimum = wsd ? 0 : section.decay_steps;  // warm-up excluded
  return {.kind = section.kind,
          .warmup = section.warmup,
          .min_lr_mode = section.min_lr_mode,
          .peak = peak,
          .min_lr = peak * section.min_lr_ratio,
          .warmup_steps = section.warmup_steps,
          .end_step = to_minimum > 0 ? section.warmup_steps + to_minimum
                                     : std::max(section.steps, section.warmup_steps),
          .wsd_steps = wsd ? section.decay_steps : 0};
}

double learning_rate(const Schedule& s, int64_t step) {
  CHECK(step >= 1, "steps count from 1, got {}", step);
  CHECK(s.warmup_steps >= 0 && s.warmup_steps <= s.end_step, "warm-up of {} steps, end at {}",
        s.warmup_steps, s.end_step);
  // The number of updates before this one.
  const int64_t n = step - 1;
  if (s.warmup_steps > 0 && n <= s.warmup_steps) {
    if (s.warmup == WarmUp::kConstant) return s.peak;
    return s.peak * static_cast<double>(n) / static_cast<double>(s.warmup_steps);
  }
  if (s.kind == ScheduleKind::kConstant) return s.peak;
  if (n > s.end_step) return s.min_lr;
  if (s.kind == ScheduleKind::kInverseSqrt) {
    // peak * sqrt(W / n) continues the warm-up without a jump: it is the peak at n = W.
    const int64_t w = std::max<int64_t>(s.warmup_steps, 1);
    return std::max(s.min_lr, s.peak * std::sqrt(ratio(w, std::max<int64_t>(n, 1))));
  }
  const double c = decay_share(s, n);
  return s.min_lr_mode == MinLrMode::kInterpolate ? s.min_lr + (s.peak - s.min_lr) * c
                                                  : std::max(s.min_lr, s.peak * c);
}

double average_share(const ScheduleSection& s, int64_t update) {
  const int64_t n = update - 1;  // updates before this one
  const int64_t rises = s.warmup == WarmUp::kLinear ? s.warmup_steps : 0;
  // The largest rates relative to the peak are 0, 1/W, …, W/W, 1, 1, …, or without a rise 1 from
  // the first. The sum of the squares of 0 … m is m (m + 1) (2 m + 1) / 6.
  if (rises == 0) return 1 / static_cast<double>(n + 1);
  const auto m = static_cast<double>(std::min(n, rises)), w = static_cast<double>(rises);
  const double sum = m * (m + 1) * (2 * m + 1) / (6 * w * w) + static_cast<double>(n) - m;
  return sum > 0 ? m * m / (w * w) / sum : 0;
}

}  // namespace tessera::config
