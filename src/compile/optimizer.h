// What the compiler must know of an optimizer; ir/ops/update.cc and kernels/update.h have the rest.
#pragma once

#include <cstdint>

namespace tessera {

enum class OptimizerKind : uint8_t { kAdamW, kAdafactor, kLion, kSgd };
constexpr const char* enum_names(OptimizerKind) { return "adamw|adafactor|lion|sgd"; }

struct OptimizerPolicy {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1, clip_norm = 1.0;
  bool decays_vectors = false;  // norms and biases too
  bool bf16_moments = false;
  bool stochastic = true;  // rounding of state that is bf16 without a master
  // Adafactor's: 1 - t^-decay_power is the decay of the second moment.
  double decay_power = 0.8, update_clip = 1, least_scale = 1e-3;
  bool scale_by_weight = true;
};

}  // namespace tessera
