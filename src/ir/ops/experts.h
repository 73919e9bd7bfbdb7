// The experts of a mixture of experts: gated feed-forward layers. Each token passes through those
// that its router chose (Shazeer et al. 2017). A choice of −1 is a dropped pair (ExpertCapacity).
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"
#include "ir/ops/gated_activation.h"

namespace tessera {

// For token t and its choice j, expert e:
//   p [I, 2] = x_t up_eᵀ (+ up_bias_e),   h [I] = gate of p[i, 0] and p[i, 1],
//   y_t = Σ_j weights_tj · h down_eᵀ
// The choices of a token are in ascending order, and so is the sum. A dropped pair adds no term,
// its p is 0, and so is the gradient of its weight. If split over experts, a rank adds the terms of
// its own experts. `saves`: also outputs p, which the backward reads.
struct Experts {
  static constexpr std::string_view kName = "experts";
  // [B, T, H], [B, T, K] i32, [B, T, K] f32, [E, I, 2, H], [E, H, I], [E, I, 2]
  enum In { kX, kChoice, kWeights, kUp, kDown, kUpBias };
  enum Out { kY, kPairs };  // [B, T, H], [B, T, K, I, 2]
  int64_t experts = 1;      // experts of the model, on all ranks together
  GateForm form = GateForm::kSilu;
  bool saves = false;
  bool biased = false;  // has up_bias; ExpertBias is that of the outputs
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
    visit("form", self.form, Print::kAlways);
    visit("saves", self.saves);
    visit("biased", self.biased);
  }
  static void inputs(const Experts& a, auto&& slot) {
    for (const In required : {kX, kChoice, kWeights, kUp, kDown}) slot(required, 1);
    slot(kUpBias, a.biased);
  }
  static void outputs(const Experts& a, auto&& slot) {
    slot(kY, 1);
    slot(kPairs, a.saves);
  }
  static const OpRule rule;
  bool operator==(const Experts&) const = default;
};

// Writes dx and the gradient of `weights`, and adds to dup, ddown and dup_bias. `saved`: reads the
// pairs of the forward; otherwise recomputes them.
struct ExpertsGrad {
  static constexpr std::string_view kName = "experts_grad";
  enum In { kX, kChoice, kWeights, kUp, kDown, kDy, kPairs, kUpBias };
  enum Out { kDx, kDWeights, kDUp, kDDown, kDUpBias };
  int64_t experts = 1;
  GateForm form = GateForm::kSilu;
  bool saved = false;
  bool frozen = false;  // no weight is trained: their gradients are omitted
  bool biased = false;
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
    visit("form", self.form, Print::kAlways);
    visit("saved", self.saved);
    visit("frozen", self.frozen);
    visit("biased", self.biased);
    visit("accum_dtype", self.accum_dtype);
  }
  static void inputs(const ExpertsGrad& a, auto&& slot) {
    for (const In required : {kX, kChoice, kWeights, kUp, kDown, kDy}) slot(required, 1);
    slot(kPairs, a.saved);
    slot(kUpBias, a.biased);
  }
  static void outputs(const ExpertsGrad& a, auto&& slot) {
    for (const Out written : {kDx, kDWeights}) slot(written, 1);
    for (const Out added : {kDUp, kDDown}) slot(added, !a.frozen);
    slot(kDUpBias, a.biased && !a.frozen);
  }
  static const OpRule rule;
  bool operator==(const ExpertsGrad&) const = default;
};

}  // namespace tessera
