// The section `objective` of the run file: what a run learns from its answers.
#pragma once

#include <cstdint>
#include <optional>

#include "base/key_errors.h"
#include "base/range.h"
#include "ir/ops/preference.h"

namespace tessera::config {

enum class ObjectiveKind : uint8_t { kSft, kDpo, kIpo, kOrpo, kKto, kSimpo, kReward };
constexpr const char* enum_names(ObjectiveKind) { return "sft|dpo|ipo|orpo|kto|simpo|reward"; }

enum class ReferenceSource : uint8_t { kPrecomputed, kAdaptersOff };
constexpr const char* enum_names(ReferenceSource) { return "precomputed|adapters_off"; }

enum class LogProbs : uint8_t { kAuto, kSum, kMean };
constexpr const char* enum_names(LogProbs) { return "auto|sum|mean"; }

struct RunConfig;  // config/run_config.h

struct ObjectiveSection {
  ObjectiveKind kind = ObjectiveKind::kSft;
  double beta = 0.1, gamma = 0.5, label_smoothing = 0;
  double desirable_weight = 1, undesirable_weight = 1;
  LogProbs log_probs = LogProbs::kAuto;
  ReferenceSource reference = ReferenceSource::kPrecomputed;

  static void fields(auto& self, auto&& visit) {
    visit("kind", self.kind,
          "sft: predict the tokens of the data; the others learn from pairs of answers in "
          "data.instructions (docs/objectives.md)");
    visit("beta", self.beta,
          "dpo, ipo, kto: strength of the tie to the reference model; orpo: weight of the odds "
          "ratio; simpo: factor of the difference",
          between(1e-9, 1e6));
    visit("gamma", self.gamma, "simpo: margin, which is not multiplied by beta", between(0, 1e6));
    visit("label_smoothing", self.label_smoothing,
          "dpo: share of pairs whose answers are assumed to be exchanged", between(0, 0.5));
    visit("desirable_weight", self.desirable_weight, "kto: weight of desirable answers",
          between(0, 1e6));
    visit("undesirable_weight", self.undesirable_weight, "kto: weight of undesirable answers",
          between(0, 1e6));
    visit("log_probs", self.log_probs,
          "log-probability of an answer: the sum over its tokens or their mean; auto: sum for dpo "
          "and kto, mean for ipo, orpo and simpo");
    visit("reference", self.reference,
          "the reference model of dpo, ipo and kto. precomputed: the weights that the run starts "
          "from; adapters_off: the weights without the LoRA adapters. Its log-probabilities are "
          "computed once, before the first step");
  }

  bool has_pairs() const { return kind != ObjectiveKind::kSft; }
  bool has_reference() const {
    return kind == ObjectiveKind::kDpo || kind == ObjectiveKind::kIpo ||
           kind == ObjectiveKind::kKto;
  }
};

// Returns the loss of pairs; nothing for sft.
std::optional<PreferenceTerms> preference_terms(const ObjectiveSection& objective);

// Adds errors for keys that do not fit the objective, and for data, models and terms of the loss
// that losses over pairs do not support. Requires values within their ranges.
void check(const ObjectiveSection& objective, const RunConfig& run, KeyErrors& errors);

}  // namespace tessera::config
