// The updates of optimizers on the flat buffers of a group of weights (base/optimizer_kind.h and
// kernels/adafactor.h have the formulas).
#pragma once

#include <optional>

#include "base/dtype.h"
#include "base/optimizer_kind.h"
#include "ir/ops/fields.h"
#include "ir/value.h"

namespace tessera {

enum class Rounding : uint8_t { kStochastic, kNearest };
constexpr const char* enum_names(Rounding) { return "stochastic|nearest"; }

// The attributes that all optimizers have. The outputs of their ops are weights, iterate, moments,
// scales of moments in 8 bits and master, as far as they exist.
struct WeightUpdate {
  BufferKindId members = kNone;  // its table maps elements to weights
  double beta1 = 0, beta2 = 0, epsilon = 0;
  double decay = 0;
  bool decay_vectors = false;
  double rate = 1;      // multiplies the scheduled learning rate
  bool master = false;  // updates are made in f32 and rounded into the weights
  std::optional<DType> weights = std::nullopt;  // none: bf16 with a master, else f32
  DType moments = DType::kF32;                  // u8: codes of 8 bits (base/moment_code.h)
  Rounding rounding = Rounding::kNearest;       // rounding of the weights if there is no master

  static void rates(auto& self, auto&& visit) {
    visit("members", self.members);
    visit("beta1", self.beta1, Print::kAlways, kFraction);
    visit("beta2", self.beta2, Print::kAlways, kFraction);
    visit("epsilon", self.epsilon, Print::kAlways, kNotNegative);
    visit("decay", self.decay, Print::kAlways, kNotNegative);
    visit("decay_vectors", self.decay_vectors);
    visit("rate", self.rate);
  }
  static void types(auto& self, auto&& visit) {
    visit("master", self.master);
    visit("weights", self.weights);
    visit("moments", self.moments);
    visit("rounding", self.rounding);
  }
  static void fields(auto& self, auto&& visit) {
    rates(self, visit);
    types(self, visit);
  }
  bool operator==(const WeightUpdate&) const = default;
};

// The update of a one-pass optimizer: weights and optimizer state. All of these ops have one rule
// (ir/ops/update.cc) and one binding (runtime/ops/update.cc).
template <OptimizerKind kKind>
struct OnePassUpdate {
  static constexpr std::string_view kName = traits_of(kKind).name;
  static constexpr OptimizerKind kOptimizer = kKind;
  enum In { kGradient, kStep, kReport };
  enum Out { kWeights };
  WeightUpdate update = {};
  static void fields(auto& self, auto&& visit) { WeightUpdate::fields(self.update, visit); }
  bool operator==(const OnePassUpdate&) const = default;
};
using Adamw = OnePassUpdate<OptimizerKind::kAdamW>;

// The exponential mean of weights over the steps, after their update (Polyak & Juditsky 1992):
//   average += (1 − decay) · (weight − average)
// The weights are the f32 masters where there are any. A skipped step changes nothing.
struct WeightAverage {
  static constexpr std::string_view kName = "weight_average";
  enum In { kWeights, kReport };
  enum Out { kAverage };
  double decay = 0;
  static void fields(auto& self, auto&& visit) {
    visit("decay", self.decay, Print::kAlways, kFraction);
  }
  static const OpRule rule;
  bool operator==(const WeightAverage&) const = default;
};

// The attributes of the two ops that come before adafactor (Shazeer & Stern 2018).
struct FactorSums {
  BufferKindId members = kNone;
  int64_t sums = 0, factors = 0, weights_held = 0;  // number of elements that the two ops write
  double epsilon = 0, decay_power = 0;
  static void fields(auto& self, auto&& visit) {
    visit("members", self.members);
    visit("sums", self.sums, Print::kAlways, at_least(1));
    visit("factors", self.factors, Print::kAlways, at_least(1));
    visit("weights_held", self.weights_held, Print::kAlways, at_least(1));
    visit("epsilon", self.epsilon, Print::kAlways, kNotNegative);
    visit("decay_power", self.decay_power, Print::kAlways, between(0, 1));
  }
  bool operator==(const FactorSums&) const = default;
};

// Sums of squares, from this rank's shard: of gradients over each row and column, and of weights.
struct AdafactorSums {
  static constexpr std::string_view kName = "adafactor_sums";
  enum In { kGradient, kWeights, kReport };
  enum Out { kSums };
  FactorSums of = {};
  static void fields(auto& self, auto&& visit) { FactorSums::fields(self.of, visit); }
  static const OpRule rule;
  bool operator==(const AdafactorSums&) const = default;
};

// The running means of rows and columns, and the sums of squares of each weight's update, over this
// rank's shard.
struct AdafactorSquares {
  static constexpr std::string_view kName = "adafactor_squares";
  enum In { kGradient, kStep, kReport, kSums };
  enum Out { kFactors, kUpdateSquares };
  FactorSums of = {};
  static void fields(auto& self, auto&& visit) { FactorSums::fields(self.of, visit); }
  static const OpRule rule;
  bool operator==(const AdafactorSquares&) const = default;
};

// Updates the weights, and the first moment if beta1 > 0.
struct Adafactor {
  static constexpr std::string_view kName = "adafactor";
  enum In { kGradient, kStep, kReport, kSums, kFactors, kUpdateSquares };
  enum Out { kWeights };
  WeightUpdate update = {};
  double update_clip = 0;
  double least_scale = 0;  // lower bound of the weight RMS that scales an update; 0: no scaling
  static void fields(auto& self, auto&& visit) {
    WeightUpdate::rates(self.update, visit);
    visit("update_clip", self.update_clip, Print::kAlways, kNotNegative);
    visit("least_scale", self.least_scale, Print::kAlways, kNotNegative);
    WeightUpdate::types(self.update, visit);
  }
  static const OpRule rule;
  bool operator==(const Adafactor&) const = default;
};

}  // namespace tessera
