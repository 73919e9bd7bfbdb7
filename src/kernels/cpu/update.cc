#include "kernels/update.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/update_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/update_simd.h"

namespace tessera::kernels {

HWY_EXPORT(SweepAdamW);
HWY_EXPORT(SweepLion);
HWY_EXPORT(SweepSgd);

UpdateStep step_of(const UpdateConstants& c, const UpdateNumbers& n) {
  return {.beta1 = c.beta1,
          .beta2 = c.beta2,
          .epsilon = c.epsilon,
          .weight_decay = c.weight_decay,
          .learning_rate = *n.learning_rate,
          .scale = *n.scale,
          .step = static_cast<int64_t>(*n.step)};
}

UpdateOperands operands_of(const Update& u, const UpdateStep& s, const char* name) {
  const int64_t n = u.weights.elements();
  const auto fits = [&](const TensorView& x) { return !x || x.elements() == n; };
  CHECK(u.gradient && fits(u.gradient) && fits(u.m) && fits(u.v) && fits(u.weights_low),
        "{}: {} weights, {} and {} moments, {} gradients", name, n, u.m.elements(), u.v.elements(),
        u.gradient.elements());
  CHECK(s.step >= 1, "{} at step {}; the first is 1", name, s.step);
  const auto sink = [](const TensorView& x) { return x ? Sink(x) : Sink(); };
  const auto t = static_cast<double>(s.step);
  const double root = std::sqrt(1 - std::pow(s.beta2, t));
  const auto f = [](double x) { return static_cast<float>(x); };
  return {.weights = u.weights,
          .m = sink(u.m),
          .v = sink(u.v),
          .gradient = u.gradient,
          .weights_low = sink(u.weights_low),
          .stochastic = u.stochastic,
          .lane = static_cast<uint64_t>(s.step),
          .scale = f(s.scale),
          .learning_rate = f(s.learning_rate),
          .beta1 = f(s.beta1),
          .one_minus_beta1 = f(1 - s.beta1),
          .beta2 = f(s.beta2),
          .one_minus_beta2 = f(1 - s.beta2),
          .epsilon = f(root * s.epsilon),
          .step_size = f(root * s.learning_rate / (1 - std::pow(s.beta1, t))),
          .keep = f(1 - s.learning_rate * s.weight_decay),
          .weight_decay = f(s.weight_decay)};
}

// The space that threads share is that of the elements, so ranges of any length balance.
void sweep_stretches(std::span<const UpdateRange> ranges,
                     void (*f)(const UpdateOperands&, const UpdateStretch&),
                     const UpdateOperands& operands) {
  if (ranges.empty()) return;
  const int64_t origin = ranges.front().begin;
  parallel_ranges(ranges.back().end - origin, kGrainElements, [&](int64_t from, int64_t to) {
    const int64_t begin = origin + from, end = origin + to;
    auto r = std::partition_point(ranges.begin(), ranges.end(),
                                  [&](const UpdateRange& x) { return x.end <= begin; });
    for (; r != ranges.end() && r->begin < end; ++r) {
      const int64_t first = std::max(begin, r->begin), last = std::min(end, r->end);
      f(operands, {first, last, r->decay, r->key, r->element + (first - r->begin)});
    }
  });
}

namespace {

void check_ranges(const Update& u, const char* name) {
  int64_t end = 0;
  for (const UpdateRange& r : u.ranges) {
    CHECK(r.begin >= end && r.begin <= r.end && r.end <= u.weights.elements(),
          "{} updates [{}, {}) of {} behind {}", name, r.begin, r.end, u.weights.elements(), end);
    end = r.end;
  }
}

void adamw(const Update& u, const UpdateStep& s) {
  CHECK(u.m && u.v, "adamw has two moments");
  check_ranges(u, "adamw");
  sweep_stretches(u.ranges, HWY_DYNAMIC_DISPATCH(SweepAdamW), operands_of(u, s, "adamw"));
}

void lion(const Update& u, const UpdateStep& s) {
  CHECK(u.m && !u.v, "lion has one moment");
  check_ranges(u, "lion");
  sweep_stretches(u.ranges, HWY_DYNAMIC_DISPATCH(SweepLion), operands_of(u, s, "lion"));
}

void sgd(const Update& u, const UpdateStep& s) {
  CHECK(!u.v && (u.m || s.beta1 == 0), "sgd has one moment, or none and beta1 = 0");
  check_ranges(u, "sgd");
  sweep_stretches(u.ranges, HWY_DYNAMIC_DISPATCH(SweepSgd), operands_of(u, s, "sgd"));
}

}  // namespace

void launch(Cpu, const Launch&, const UpdateArgs& a) {
  if (*a.numbers.skip != 0) return;
  const UpdateStep s = step_of(a.constants, a.numbers);
  if (a.rule == UpdateRule::kAdamW) return adamw(a.update, s);
  if (a.rule == UpdateRule::kLion) return lion(a.update, s);
  sgd(a.update, s);
}

}  // namespace tessera::kernels
