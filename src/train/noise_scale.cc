// Averages the two estimators of the gradient-noise scale. The sums have equal weights, so the
// quotient of the sums is that of the means.
#include "train/noise_scale.h"

#include <cmath>

#include "base/error.h"

namespace tessera::train {
namespace {

constexpr const char* kKey = "noise_scale";

}  // namespace

void NoiseScale::add(const GradientOfBatch& part, const GradientOfBatch& step) {
  CHECK(part.samples > 0 && part.samples < step.samples, "a part of {} of {} samples", part.samples,
        step.samples);
  const auto small = static_cast<double>(part.samples), large = static_cast<double>(step.samples);
  const double of_part = part.norm * part.norm, of_step = step.norm * step.norm;
  if (!std::isfinite(of_part) || !std::isfinite(of_step)) return;
  square_ = kDecay * square_ + (large * of_step - small * of_part) / (large - small);
  trace_ = kDecay * trace_ + (of_part - of_step) / (1 / small - 1 / large);
}

std::optional<double> NoiseScale::value() const {
  if (!(square_ > 0) || !(trace_ > 0)) return std::nullopt;
  return trace_ / square_;
}

void NoiseScale::save(Tree& state) const {
  if (square_ == 0 && trace_ == 0) return;
  Tree sums = Tree::object();
  sums.set("square", Tree(square_));
  sums.set("trace", Tree(trace_));
  state.set(kKey, std::move(sums));
}

void NoiseScale::restore(const Tree& state) {
  const Tree* const sums = state.as_members() ? state.find(kKey) : nullptr;
  if (sums == nullptr || !sums->as_members()) return;
  const auto number = [&](const char* key) {
    const Tree* const found = sums->find(key);
    const std::optional<double> value = found ? number_in(*found) : std::nullopt;
    return value && std::isfinite(*value) ? *value : 0.0;
  };
  square_ = number("square");
  trace_ = number("trace");
}

}  // namespace tessera::train
