// Losses of preferences. A row of tokens has up to kAnswersPerRow texts, each a prompt and an
// answer: the chosen and the rejected answer of a pair. The loss is a function of one number per
// answer, the log-probability of its tokens or its score, and its gradient is one factor per
// answer:
//
//   logits → logits_max, logits_sums → answer_sums → preference_loss
//   scores ──────────────────────────→
#pragma once

#include "ir/ops/fields.h"

namespace tessera {

inline constexpr int64_t kAnswersPerRow = 2;  // texts per row: the chosen one and the rejected one
enum AnswerColumn : int64_t { kAnswerSum, kAnswerTokens, kAnswerColumns };

// Columns of batch.references [B, kReferenceColumns] f64.
enum ReferenceColumn : int64_t {
  kChosenReference,    // log-probability of the first answer under the reference model
  kRejectedReference,  // that of the second one; the loss of kto reads its z here
  kPairFigure,         // kto: 1 if the answer is desirable, else 0; orpo: the factor of the chosen
                // answer's cross-entropy, pairs / tokens of chosen answers in the step; reward: the
                // margin
  kReferenceColumns
};

// dz of logits_sums, which is linear in its result: ds_0 e^(z − m) + ds_1 [v = label], times the
// slope of the cap. The maximum m needs no gradient: ln s_0 and s_1 only occur in s_1 − ln s_0,
// which does not depend on it.
struct LogitsSumsGrad {
  static constexpr std::string_view kName = "logits_sums_grad";
  enum In { kLogits, kMax, kLabels, kDSums };
  enum Out { kDLogits };
  double soft_cap = 0;
  static void fields(auto& self, auto&& visit) {
    visit("soft_cap", self.soft_cap, Print::kUnlessDefault, kNotNegative);
  }
  static const OpRule rule;
  bool operator==(const LogitsSumsGrad&) const = default;
};

// y[b,a] = (Σ_t x[b,t], number of terms) over the positions t with answers[b,t] = a.
// log_probs: x are the two sums of logits_sums, and the terms are s_1 − ln s_0 = log p[label].
// Otherwise the terms are scores [B, T, 1].
struct AnswerSums {
  static constexpr std::string_view kName = "answer_sums";
  enum In { kX, kAnswersOf };  // [B, T, 2] or [B, T, 1], [B, T] i32
  enum Out { kSums };          // [B, kAnswersPerRow, kAnswerColumns] f64
  bool log_probs = true;
  static void fields(auto& self, auto&& visit) {
    visit("log_probs", self.log_probs, Print::kAlways);
  }
  static const OpRule rule;
  bool operator==(const AnswerSums&) const = default;
};

struct AnswerSumsGrad {
  static constexpr std::string_view kName = "answer_sums_grad";
  enum In { kX, kAnswersOf, kDSums };
  enum Out { kDX };
  bool log_probs = true;
  static void fields(auto& self, auto&& visit) {
    visit("log_probs", self.log_probs, Print::kAlways);
  }
  static const OpRule rule;
  bool operator==(const AnswerSumsGrad&) const = default;
};

enum class PreferenceKind : uint8_t { kDpo, kIpo, kOrpo, kKto, kSimpo, kReward };
constexpr const char* enum_names(PreferenceKind) { return "dpo|ipo|orpo|kto|simpo|reward"; }

// The loss of a pair. c and r are the numbers of the chosen and of the rejected answer: sums over
// their tokens or, with `mean`, means; Δc and Δr are c and r less those of the reference model;
// ls(x) = ln σ(x); ε = label_smoothing.
//   dpo     −(1 − ε) ls(β (Δc − Δr)) − ε ls(−β (Δc − Δr))        Rafailov et al. 2023
//   ipo     (Δc − Δr − 1 / (2 β))²                               Azar et al. 2023
//   simpo   −ls(β (c − r) − γ)                                   Meng et al. 2024
//   orpo    w · −Σ_c − β ls((c − r) − (ln(1 − e^c) − ln(1 − e^r)))   Hong et al. 2024
//           Σ_c is the sum over the chosen answer, w its factor in the references
//   kto     desirable: λ_d (1 − σ(β (Δc − z))); undesirable: λ_u (1 − σ(β (z − Δc))),
//           z is the same for all rows of a step                 Ethayarajh et al. 2024
//   reward  −ls(c − r − margin)                                  Bradley and Terry
struct PreferenceTerms {
  PreferenceKind kind = PreferenceKind::kDpo;
  bool mean = false;
  double beta = 0.1, gamma = 0, label_smoothing = 0;
  double desirable_weight = 1, undesirable_weight = 1;
  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind, Print::kAlways);
    visit("mean", self.mean);
    visit("beta", self.beta, Print::kAlways, kNotNegative);
    visit("gamma", self.gamma, Print::kUnlessDefault, kFinite);
    visit("label_smoothing", self.label_smoothing, Print::kUnlessDefault, kFraction);
    visit("desirable_weight", self.desirable_weight, Print::kUnlessDefault, kNotNegative);
    visit("undesirable_weight", self.undesirable_weight, Print::kUnlessDefault, kNotNegative);
  }
  bool has_log_probs() const { return kind != PreferenceKind::kReward; }
  bool operator==(const PreferenceTerms&) const = default;
};

// report += (Σ losses, number of pairs) and the figures of ir/state.h; with `gradient`, also the
// gradient of the sum of the losses. A row without a chosen answer has no loss.
struct PreferenceLoss {
  static constexpr std::string_view kName = "preference_loss";
  enum In { kSums, kReferences, kStep };
  enum Out { kReport, kDSums };
  PreferenceTerms terms = {};
  bool gradient = false;
  bool scaled = false;  // gradients are multiplied by the loss scale of the step, the last input
  static void fields(auto& self, auto&& visit) {
    PreferenceTerms::fields(self.terms, visit);
    visit("gradient", self.gradient);
    visit("scaled", self.scaled);
  }
  static void inputs(const PreferenceLoss& a, auto&& slot) {
    slot(kSums, 1);
    slot(kReferences, 1);
    slot(kStep, a.scaled);
  }
  static void outputs(const PreferenceLoss& a, auto&& slot) {
    slot(kReport, 1);
    slot(kDSums, a.gradient);
  }
  static const OpRule rule;
  bool operator==(const PreferenceLoss&) const = default;
};

}  // namespace tessera
