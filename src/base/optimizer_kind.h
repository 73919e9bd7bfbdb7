// The table of optimizers, one entry each. It contains all their differences except the arithmetic
// (docs/adding_an_optimizer.md).
//
// In all of them g = scale * gradient, and learning_rate is the step's learning rate times the
// group's multiplier. If weight decay applies to a weight, w *= 1 - learning_rate * weight_decay
// is computed first, unless stated otherwise.
//
//   adamw   m += (1 - beta1) * (g - m),   v = beta2 * v + (1 - beta2) * g * g
//           w -= learning_rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//           (Loshchilov & Hutter 2019, as in PyTorch)
//   lion    w -= learning_rate * sign(beta1 * m + (1 - beta1) * g)
//           m = beta2 * m + (1 - beta2) * g                              (Chen et al. 2023)
//   sgd     g += weight_decay * w instead of the decay above,  m = beta1 * m + g
//           w -= learning_rate * m, or * g without m         (as in PyTorch, without dampening)
//   schedule_free   keeps two sequences of weights, x and z; gradients are those at
//           y = z + beta1 * (x - z), which GEMMs read;  v = beta2 * v + (1 - beta2) * g * g
//           z -= learning_rate * (g / (sqrt(v) / sqrt(1 - beta2^t) + epsilon) + weight_decay * y)
//           x += c * (z - x),   c = r^2 / (sum of r^2 up to this update) for the largest learning
//           rate r so far (config::average_share)
//           x is what is evaluated, saved and exported (Defazio et al. 2024, as their AdamW)
//   adafactor: kernels/adafactor.h
//   muon: kernels/muon.h
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace tessera {

enum class OptimizerKind : uint8_t { kAdamW, kAdafactor, kLion, kSgd, kMuon, kScheduleFree };
constexpr const char* enum_names(OptimizerKind) {
  return "adamw|adafactor|lion|sgd|muon|schedule_free";
}

struct OptimizerTraits {
  OptimizerKind kind;
  std::string_view name;  // name of the kind and of its update op
  bool moment1 = true;    // keeps a first moment even if beta1 = 0
  bool moment2 = false;   // keeps a second moment of each weight
  bool factored = false;  // keeps means of rows and columns, computed by separate ops
  bool averages = false;  // keeps a mean of the weights as the master, and the iterate z
  bool matrices = false;  // updates whole matrices, by separate ops; other weights have AdamW
  bool by_sign = false;   // a rounding error in a zero gradient changes a weight by a full step
  // Defaults for a run file that sets only the kind.
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1, clip_norm = 1;
};

// The table of optimizers, in the order of OptimizerKind.
inline constexpr OptimizerTraits kOptimizers[] = {
    {.kind = OptimizerKind::kAdamW, .name = "adamw", .moment2 = true},
    {.kind = OptimizerKind::kAdafactor,
     .name = "adafactor",
     .moment1 = false,
     .factored = true,
     .beta1 = 0,
     .epsilon = 1e-30,
     .weight_decay = 0,
     .clip_norm = 0},
    {.kind = OptimizerKind::kLion, .name = "lion", .by_sign = true, .beta2 = 0.99},
    {.kind = OptimizerKind::kSgd, .name = "sgd", .moment1 = false, .weight_decay = 0},
    {.kind = OptimizerKind::kMuon, .name = "muon", .matrices = true},
    {.kind = OptimizerKind::kScheduleFree,
     .name = "schedule_free",
     .moment1 = false,
     .moment2 = true,
     .averages = true,
     .beta2 = 0.999,
     .weight_decay = 0},
};

constexpr const OptimizerTraits& traits_of(OptimizerKind kind) {
  return kOptimizers[static_cast<size_t>(kind)];
}

// Returns whether the optimizer updates a weight from its own gradient and state, in one pass.
constexpr bool is_one_pass(const OptimizerTraits& o) { return !o.factored && !o.matrices; }
// Returns whether the optimizer's moments may have 8 bits (base/moment_code.h).
constexpr bool allows_8bit_moments(const OptimizerTraits& o) {
  return is_one_pass(o) && !o.averages;
}
inline constexpr auto kOnePassOptimizers = [] {
  std::array<OptimizerKind,
             std::count_if(std::begin(kOptimizers), std::end(kOptimizers), is_one_pass)>
      kinds{};
  size_t n = 0;
  for (const OptimizerTraits& o : kOptimizers)
    if (is_one_pass(o)) kinds[n++] = o.kind;
  return kinds;
}();

}  // namespace tessera
