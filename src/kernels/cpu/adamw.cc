#include "kernels/adamw.h"

#include <cmath>

#define HWY_TARGET_INCLUDE "kernels/cpu/adamw_simd.h"
#include "hwy/foreach_target.h"
#include "kernels/cpu/adamw_simd.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

HWY_EXPORT(UpdateWeights);

namespace {

AdamWRange range_of(const AdamW& a, const AdamWStep& s) {
  const int64_t n = a.weights.elements();
  CHECK(a.m.elements() == n && a.v.elements() == n && a.gradient.elements() == n &&
            (!a.weights_low || a.weights_low.elements() == n),
        "adamw: {} weights, {} and {} moments, {} gradients", n, a.m.elements(), a.v.elements(),
        a.gradient.elements());
  const auto t = static_cast<double>(s.step);
  const auto f = [](double x) { return static_cast<float>(x); };
  return {.weights = a.weights.f32(),
          .m = a.m.f32(),
          .v = a.v.f32(),
          .gradient = a.gradient,
          .weights_low = a.weights_low ? a.weights_low.as<uint16_t>() : nullptr,
          .scale = f(s.scale),
          .one_minus_beta1 = f(1 - s.beta1),
          .beta2 = f(s.beta2),
          .one_minus_beta2 = f(1 - s.beta2),
          .root_bias_correction = f(std::sqrt(1 - std::pow(s.beta2, t))),
          .epsilon = f(s.epsilon),
          .step_size = f(s.learning_rate / (1 - std::pow(s.beta1, t)))};
}

}  // namespace

void adamw(const AdamW& a, const AdamWStep& s) {
  if (s.skip) return;
  CHECK(s.step >= 1, "adamw at step {}; the first is 1", s.step);
  CHECK(!a.weights_low || a.weights_low.dtype == DType::kBF16, "adamw writes a copy in {}",
        name_of(a.weights_low.dtype));
  const AdamWRange range = range_of(a, s);
  const auto update = &HWY_DYNAMIC_DISPATCH(UpdateWeights);
  for (const UpdateRange& r : a.ranges) {
    CHECK(r.begin >= 0 && r.begin <= r.end && r.end <= a.weights.elements(),
          "adamw updates [{}, {}) of {}", r.begin, r.end, a.weights.elements());
    const auto keep = static_cast<float>(1 - s.learning_rate * (r.decay ? s.weight_decay : 0.0));
    parallel_ranges(r.end - r.begin, kGrainElements, [&](int64_t begin, int64_t end) {
      update(range, keep, r.begin + begin, r.begin + end);
    });
  }
}

}  // namespace tessera::kernels
