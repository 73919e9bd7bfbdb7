// The output biases of a mixture of experts.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// y_t = Σ_j weights_tj · bias[choice_tj]. It is an op of its own because it is added once, while
// the outputs of the experts are partial sums where their inner width is split. If split over
// experts, a rank adds the terms of its own experts.
struct ExpertBias {
  static constexpr std::string_view kName = "expert_bias";
  enum In { kChoice, kWeights, kBias };  // [B, T, K] i32, [B, T, K] f32, [E, H]
  enum Out { kY };                       // [B, T, H], of the type of the bias
  int64_t experts = 1;                   // experts of the model, on all ranks together
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
  }
  static const OpRule rule;
  bool operator==(const ExpertBias&) const = default;
};

// Writes the gradient of `weights`, and adds to that of `bias`. `frozen`: the bias is not trained,
// and its gradient is omitted.
struct ExpertBiasGrad {
  static constexpr std::string_view kName = "expert_bias_grad";
  enum In { kChoice, kWeights, kBias, kDy };
  enum Out { kDWeights, kDBias };
  int64_t experts = 1;
  bool frozen = false;
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
    visit("frozen", self.frozen);
    visit("accum_dtype", self.accum_dtype);
  }
  static void outputs(const ExpertBiasGrad& a, auto&& slot) {
    slot(kDWeights, 1);
    slot(kDBias, !a.frozen);
  }
  static const OpRule rule;
  bool operator==(const ExpertBiasGrad&) const = default;
};

}  // namespace tessera
