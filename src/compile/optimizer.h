// Optimizer settings that the compiler reads; base/optimizer_kind.h has the others.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/newton_schulz.h"
#include "base/optimizer_kind.h"

namespace tessera::compile {

struct OptimizerPolicy {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double rate_multiplier = 1;   // multiplies the scheduled learning rate
  bool decays_vectors = false;  // norms and biases too
  DType moments = DType::kF32;  // or bf16, or u8: in 8 bits (base/moment_code.h)
  bool stochastic = true;       // rounding of state that is bf16 without a master
  // Adafactor's: 1 - t^-decay_power is the decay of the second moment.
  double decay_power = 0.8, clip_threshold = 1, min_parameter_scale = 1e-3;
  bool scale_parameter = true;
  // Muon's. `all_matrices`: also of embeddings, heads and routers, which have AdamW otherwise.
  double momentum = 0.95;
  bool nesterov = true, all_matrices = false;
  int64_t newton_schulz_steps = 5;
  NewtonSchulzCoefficients newton_schulz_coefficients = NewtonSchulzCoefficients::kSimple;
  UpdateScale update_scale = UpdateScale::kSpectral;
  bool bf16_newton_schulz = false;
  double qk_clip = 0;  // limit of attention scores (ir/ops/max_scores.h); 0: none
};

// Weights with an optimizer of their own: those whose names match a pattern and no earlier group.
struct OptimizerGroup {
  std::vector<std::string> match;  // '*' for any text
  OptimizerPolicy policy;
  // That of the weights which `policy` leaves to AdamW, if it differs from `policy` in more than
  // its kind.
  std::optional<OptimizerPolicy> rest = {};
  bool matrices_only = false;  // only weights of GEMMs in layers (muP)
};

// Terms of the training loss next to the cross-entropy (ir/ops/cross_entropy.h); 0: without.
struct LossPolicy {
  double z_loss = 0, label_smoothing = 0;
  double mtp_weight = 0;  // factor of the mean loss of multi-token prediction
  bool operator==(const LossPolicy&) const = default;
};

// kDora: the result of each output is scaled to a norm that is trained too (Liu et al. 2024).
enum class AdapterKind : uint8_t { kLora, kDora };
constexpr const char* enum_names(AdapterKind) { return "lora|dora"; }
// The factor of B A: alpha / rank, or alpha / sqrt(rank) (Kalajdzievski 2023).
enum class AdapterScaling : uint8_t { kRank, kRslora };
constexpr const char* enum_names(AdapterScaling) { return "rank|rslora"; }

// How the frozen weights of the linear layers are stored under adapters. kNf4: in 4 bits, as QLoRA
// does (base/nf4.h).
enum class Quantization : uint8_t { kNone, kNf4 };
constexpr const char* enum_names(Quantization) { return "none|nf4"; }

// Low-rank adapters (Hu et al. 2021): a weight W [out, in] is frozen and gets A [rank, in] and
// B [out, rank]: y = W x + scale() · B A x.
struct AdapterPolicy {
  int64_t rank = 0;  // 0: none
  double alpha = 16;
  // Patterns of weight names, or names of modules as in PEFT; none: all linear layers.
  std::vector<std::string> targets;
  AdapterKind kind = AdapterKind::kLora;
  AdapterScaling scaling = AdapterScaling::kRank;
  Quantization quantize = Quantization::kNone;
  bool operator==(const AdapterPolicy&) const = default;
  double scale() const {
    const auto n = static_cast<double>(rank);
    return alpha / (scaling == AdapterScaling::kRslora ? std::sqrt(n) : n);
  }
};

}  // namespace tessera::compile
