// What the compiler must know of an optimizer; ir/ops/update.cc and kernels/update.h have the rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

// Low-rank adapters (Hu et al. 2021): beside the product with a weight W [out, in] stands one with
// A [rank, in] and B [out, rank], y = W x + alpha / rank · B A x; W is frozen.
struct AdapterPolicy {
  int64_t rank = 0;  // 0: none
  double alpha = 16;
  std::vector<std::string> targets;  // names of weights, '*' for any text; none: every product's
  double scale() const { return alpha / static_cast<double>(rank); }
};

// Whether a name is that of a pattern in which '*' stands for any text.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace tessera
