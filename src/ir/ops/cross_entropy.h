// The training loss. A loss and its gradient are one op: the gradient rule emits it again with
// `gradient`, and differentiate drops the first.
#pragma once

#include "base/dtype.h"
#include "ir/ops/fields.h"

namespace tessera {

// The terms of a training loss, from logits z of vocabulary V after the soft cap
// cap(z) = soft_cap · tanh(z / soft_cap), or z where soft_cap is 0:
//
//   (1 − label_smoothing) · −log p[label]  +  label_smoothing · mean_v(−log p[v])
//     + z_loss · (log Σ_v e^z[v])²                                  with p = softmax(z)
//
// The smoothing is torch's: uniform over all of V, the label included. The z-loss is that of PaLM
// (Chowdhery et al. 2022).
//
// A loss of multi-token prediction (`mtp`) has sums of its own in the report. Its gradient is
// multiplied by `weight`.
struct LossTerms {
  double soft_cap = 0, z_loss = 0, label_smoothing = 0;
  bool mtp = false;
  double weight = 1;
  static void fields(auto& self, auto&& visit) {
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
    visit("z_loss", self.z_loss, Print::kUnlessDefault, kNotNegative);
    visit("label_smoothing", self.label_smoothing, Print::kUnlessDefault, kFraction);
    visit("mtp", self.mtp);
    visit("weight", self.weight, Print::kUnlessDefault, kNotNegative);
  }
  bool operator==(const LossTerms&) const = default;
};

// report += (Σ −log p[label], number of labels ≥ 0, Σ z_loss · (log Σ_v e^z[v])²); with `gradient`,
// also dlogits, the gradient of the sum of all terms, in place where nothing reads the logits after
// it.
struct CrossEntropy {
  static constexpr std::string_view kName = "cross_entropy";
  enum In { kLogits, kLabels, kStep };
  enum Out { kReport, kDLogits };
  LossTerms terms = {};
  bool gradient = false;
  bool scaled = false;  // gradients are multiplied by the loss scale of the step, the last input
  static void fields(auto& self, auto&& visit) {
    LossTerms::fields(self.terms, visit);
    visit("gradient", self.gradient);
    visit("scaled", self.scaled);
  }
  static void inputs(const CrossEntropy& a, auto&& slot) {
    slot(kLogits, 1);
    slot(kLabels, 1);
    slot(kStep, a.scaled);
  }
  static void outputs(const CrossEntropy& a, auto&& slot) {
    slot(kReport, 1);
    slot(kDLogits, a.gradient);
  }
  static const OpRule rule;
  bool operator==(const CrossEntropy&) const = default;
};

// The same of logits = x wᵀ, by chunks of tokens, so that logits are never held for all of them;
// with `gradient`, also dx and dw +=.
struct LinearCrossEntropy {
  static constexpr std::string_view kName = "linear_cross_entropy";
  enum In { kX, kW, kLabels, kStep };
  enum Out { kReport, kDx, kDw };
  LossTerms terms = {};
  bool gradient = false;
  bool frozen = false;  // the weight is not trained: no dw
  bool scaled = false;
  DType accum_dtype = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    LossTerms::fields(self.terms, visit);
    visit("gradient", self.gradient);
    visit("frozen", self.frozen);
    visit("scaled", self.scaled);
    visit("accum_dtype", self.accum_dtype);
  }
  static void inputs(const LinearCrossEntropy& a, auto&& slot) {
    for (const In required : {kX, kW, kLabels}) slot(required, 1);
    slot(kStep, a.scaled);
  }
  static void outputs(const LinearCrossEntropy& a, auto&& slot) {
    slot(kReport, 1);
    slot(kDx, a.gradient);
    slot(kDw, a.gradient && !a.frozen);
  }
  static const OpRule rule;
  bool operator==(const LinearCrossEntropy&) const = default;
};

}  // namespace tessera
