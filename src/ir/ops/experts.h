// The experts of a mixture of experts: gated feed-forward layers. Each token passes through those
// that its router chose (Shazeer et al. 2017). A choice of −1 is a dropped pair (ExpertCapacity).
//
// The experts may have low-rank adapters (Hu et al. 2021): up_e + scale · up_b_e up_a_e in place of
// up_e, or the same for down, or both. Then up, down and up_bias are frozen, and only the adapters
// are trained.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"
#include "ir/ops/gated_activation.h"

namespace tessera {

// The matrices of experts that have adapters, and the scale of these adapters.
struct ExpertAdapters {
  bool up = false, down = false;
  double scale = 1;
  bool any() const { return up || down; }
  static void fields(auto& self, auto&& visit) {
    visit("adapts_up", self.up);
    visit("adapts_down", self.down);
    visit("scale", self.scale, Print::kUnlessDefault, kFinite);
  }
  bool operator==(const ExpertAdapters&) const = default;
};

// For token t and its choice j, expert e:
//   p [I, 2] = x_t up_eᵀ (+ up_bias_e),   h [I] = gate of p[i, 0] and p[i, 1],
//   y_t = Σ_j weights_tj · h down_eᵀ
// The choices of a token are in ascending order, and so is the sum. A dropped pair adds no term,
// its p is 0, and so is the gradient of its weight. If split over experts, a rank adds the terms of
// its own experts. `saves`: also outputs p, which the backward reads.
struct Experts {
  static constexpr std::string_view kName = "experts";
  // [B, T, H], [B, T, K] i32, [B, T, K] f32, [E, I, 2, H], [E, H, I], [E, I, 2],
  // [E, R, H], [E, I, 2, R], [E, R, I], [E, H, R]
  enum In { kX, kChoice, kWeights, kUp, kDown, kUpBias, kUpA, kUpB, kDownA, kDownB };
  enum Out { kY, kPairs };  // [B, T, H], [B, T, K, I, 2]
  int64_t experts = 1;      // experts of the model, on all ranks together
  GateForm form = GateForm::kSilu;
  bool saves = false;
  bool biased = false;  // has up_bias; ExpertBias adds the bias of the outputs
  ExpertAdapters adapters = {};
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
    visit("form", self.form, Print::kAlways);
    visit("saves", self.saves);
    visit("biased", self.biased);
    ExpertAdapters::fields(self.adapters, visit);
  }
  static void inputs(const Experts& a, auto&& slot) {
    for (const In required : {kX, kChoice, kWeights, kUp, kDown}) slot(required, 1);
    slot(kUpBias, a.biased);
    for (const In adapter : {kUpA, kUpB}) slot(adapter, a.adapters.up);
    for (const In adapter : {kDownA, kDownB}) slot(adapter, a.adapters.down);
  }
  static void outputs(const Experts& a, auto&& slot) {
    slot(kY, 1);
    slot(kPairs, a.saves);
  }
  static const OpRule rule;
  bool operator==(const Experts&) const = default;
};

// Writes dx and the gradient of `weights`, and adds to dup, ddown and dup_bias, or to the gradients
// of the adapters. `saved`: reads the pairs of the forward; otherwise recomputes them.
struct ExpertsGrad {
  static constexpr std::string_view kName = "experts_grad";
  enum In { kX, kChoice, kWeights, kUp, kDown, kDy, kPairs, kUpBias, kUpA, kUpB, kDownA, kDownB };
  enum Out { kDx, kDWeights, kDUp, kDDown, kDUpBias, kDUpA, kDUpB, kDDownA, kDDownB };
  int64_t experts = 1;
  GateForm form = GateForm::kSilu;
  bool saved = false;
  bool frozen = false;  // no weight is trained: their gradients are omitted
  bool biased = false;
  ExpertAdapters adapters = {};
  DType accum_dtype = DType::kF32;
  bool trains_experts() const { return !frozen && !adapters.any(); }
  static void fields(auto& self, auto&& visit) {
    visit("experts", self.experts, Print::kAlways, at_least(1));
    visit("form", self.form, Print::kAlways);
    visit("saved", self.saved);
    visit("frozen", self.frozen);
    visit("biased", self.biased);
    ExpertAdapters::fields(self.adapters, visit);
    visit("accum_dtype", self.accum_dtype);
  }
  static void inputs(const ExpertsGrad& a, auto&& slot) {
    for (const In required : {kX, kChoice, kWeights, kUp, kDown, kDy}) slot(required, 1);
    slot(kPairs, a.saved);
    slot(kUpBias, a.biased);
    for (const In adapter : {kUpA, kUpB}) slot(adapter, a.adapters.up);
    for (const In adapter : {kDownA, kDownB}) slot(adapter, a.adapters.down);
  }
  static void outputs(const ExpertsGrad& a, auto&& slot) {
    for (const Out written : {kDx, kDWeights}) slot(written, 1);
    for (const Out added : {kDUp, kDDown}) slot(added, a.trains_experts());
    slot(kDUpBias, a.biased && a.trains_experts());
    for (const Out added : {kDUpA, kDUpB}) slot(added, a.adapters.up && !a.frozen);
    for (const Out added : {kDDownA, kDDownB}) slot(added, a.adapters.down && !a.frozen);
  }
  static const OpRule rule;
  bool operator==(const ExpertsGrad&) const = default;
};

}  // namespace tessera
