// The gradient-noise scale (McCandlish et al. 2018, "An empirical model of large-batch training",
// appendix A.1): the batch size at which the noise of a step's gradient is as large as the
// gradient.
//
// A gradient of B samples has the expected square |G|² + tr(Σ) / B. Two batch sizes give both:
//
//   |G|² ≈ (B₂ |g₂|² − B₁ |g₁|²) / (B₂ − B₁)        tr(Σ) ≈ (|g₁|² − |g₂|²) / (1 / B₁ − 1 / B₂)
//
// The estimates of single steps are noisy, and their quotient is biased. So both are averaged over
// the measurements, with an exponential decay, and the noise scale is the quotient of the means.
#pragma once

#include <cstdint>
#include <optional>

#include "base/tree.h"

namespace tessera::train {

// A batch, in samples, and the norm of its mean gradient.
struct GradientOfBatch {
  int64_t samples = 0;
  double norm = 0;
};

class NoiseScale {
 public:
  static constexpr double kDecay = 0.95;  // weight of the earlier measurements

  // Adds the measurement of one step: the gradient of the step, and of a smaller part of it. A
  // norm that is not finite is ignored.
  void add(const GradientOfBatch& part, const GradientOfBatch& step);
  // Returns the noise scale in samples; nothing before the first measurement, or while a mean is
  // not positive, which noise can cause.
  std::optional<double> value() const;

  // Write the means to the state of a checkpoint, and read them. Without them the means start
  // again.
  void save(Tree& state) const;
  void restore(const Tree& state);

 private:
  double square_ = 0, trace_ = 0;  // weighted sums of the estimates, with the same weights
};

}  // namespace tessera::train
