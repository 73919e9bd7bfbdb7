// Vocabulary-parallel cross-entropy: each rank has a shard of the logits z, and a reduction follows
// each of the first two ops. Each op reads z as cap(z) (ir/ops/cross_entropy.h). Every rank of the
// group has the complete loss, so only one of them adds it to the report.
#pragma once

#include "ir/ops/cross_entropy.h"
#include "ir/ops/fields.h"

namespace tessera {

// m[b,t] = max_v z[b,t,v]
struct LogitsMax {
  static constexpr std::string_view kName = "logits_max";
  enum In { kLogits };
  enum Out { kMax };
  double soft_cap = 0;
  static void fields(auto& self, auto&& visit) {
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
  }
  static const OpRule rule;
  bool operator==(const LogitsMax&) const = default;
};

// s[b,t] = (Σ_v e^(z[b,t,v] − m[b,t]),  z[b,t,label] − m[b,t])
// Its gradient is logits_sums_grad (ir/ops/preference.h), where other ops than the loss read s.
struct LogitsSums {
  static constexpr std::string_view kName = "logits_sums";
  enum In { kLogits, kMax, kLabels };
  enum Out { kSums };
  double soft_cap = 0;
  static void fields(auto& self, auto&& visit) {
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
  }
  static const OpRule rule;
  bool operator==(const LogitsSums&) const = default;
};

// report += (Σ ln s₀ − s₁, number of labels ≥ 0, Σ z_loss · lse²) with lse = m + ln s₀; with
// `gradient`, also dz = ((1 + 2 z_loss · lse) e^(z − m) / s₀ − (1 − ε) onehot − ε / V) · cap' with
// ε = label_smoothing and V the vocabulary of all ranks.
struct VocabParallelCrossEntropy {
  static constexpr std::string_view kName = "vocab_parallel_cross_entropy";
  enum In { kLogits, kMax, kSums, kLabels, kStep };
  enum Out { kReport, kDLogits };
  LossTerms terms = {};
  bool gradient = false;
  bool scaled = false;  // gradients are multiplied by the loss scale of the step, the last input
  static void fields(auto& self, auto&& visit) {
    LossTerms::fields(self.terms, visit);
    visit("gradient", self.gradient);
    visit("scaled", self.scaled);
  }
  static void inputs(const VocabParallelCrossEntropy& a, auto&& slot) {
    for (const In required : {kLogits, kMax, kSums, kLabels}) slot(required, 1);
    slot(kStep, a.scaled);
  }
  static void outputs(const VocabParallelCrossEntropy& a, auto&& slot) {
    slot(kReport, 1);
    slot(kDLogits, a.gradient);
  }
  static const OpRule rule;
  bool operator==(const VocabParallelCrossEntropy&) const = default;
};

}  // namespace tessera
