// Checks the section `objective` and translates it to the terms of a loss.
#include "config/objective_section.h"

#include "config/run_config.h"

namespace tessera::config {
namespace {

using Kind = ObjectiveKind;

// Where the log-probabilities of answers are sums by default.
bool is_sum(Kind kind) { return kind == Kind::kDpo || kind == Kind::kKto; }

void check_own_keys(const ObjectiveSection& o, const RunConfig& run, KeyErrors& errors) {
  const auto only = [&](const char* key, bool given, bool fits, const char* kinds) {
    if (given && !fits)
      errors.add(key,
                 "is given, but objective.kind = {} does not use it. It is supported only with {}.",
                 name_of_entry(o.kind), kinds);
  };
  const auto given = [&](const char* key) { return run.places.contains(key); };
  const ObjectiveSection defaults;
  const Kind kind = o.kind;
  only("objective.beta", given("objective.beta") && o.beta != defaults.beta,
       o.has_pairs() && kind != Kind::kReward, "dpo, ipo, orpo, kto and simpo");
  only("objective.gamma", given("objective.gamma") && o.gamma != defaults.gamma,
       kind == Kind::kSimpo, "simpo");
  only("objective.label_smoothing", o.label_smoothing != 0, kind == Kind::kDpo, "dpo");
  only("objective.desirable_weight", o.desirable_weight != 1, kind == Kind::kKto, "kto");
  only("objective.undesirable_weight", o.undesirable_weight != 1, kind == Kind::kKto, "kto");
  only("objective.log_probs", o.log_probs != LogProbs::kAuto,
       kind == Kind::kDpo || kind == Kind::kIpo, "dpo and ipo");
  if (o.reference == ReferenceSource::kAdaptersOff && !o.has_reference())
    errors.add("objective.reference",
               "= adapters_off, but objective.kind = {} has no reference model. Remove it.",
               name_of_entry(kind));
  else if (o.reference == ReferenceSource::kAdaptersOff && run.lora.rank == 0 &&
           run.lora.from.empty())
    errors.add("objective.reference",
               "= adapters_off, but lora.rank = 0. Set lora.rank, or use precomputed.");
  else if (o.reference == ReferenceSource::kAdaptersOff &&
           run.lora.kind == compile::AdapterKind::kDora)
    errors.add(
        "objective.reference",
        "= adapters_off requires lora.kind = lora: the magnitudes of dora replace the norms of "
        "the weights. Use precomputed.");
}

void check_data(const ObjectiveSection& o, const RunConfig& run, KeyErrors& errors) {
  const std::string kind(name_of_entry(o.kind));
  const DataSection& d = run.data;
  if (run.model.encoder_layers > 0)
    return errors.add("objective.kind",
                      "= {} requires a decoder-only model, but family {} has an encoder.", kind,
                      name_of_entry(run.model.family));
  if (!d.train.empty() || !d.stages.empty())
    errors.add("objective.kind",
               "= {} reads pairs of answers, expected data.instructions instead of "
               "data.train.",
               kind);
  if (!d.form.empty())
    errors.add("data.template",
               "requires objective.kind = sft, but it is {}. Use the chat template.", kind);
  if (!d.intra_document_masking)
    errors.add("data.intra_document_masking",
               "= false, but with objective.kind = {} a row has both answers of a pair, which must "
               "not see each other. Remove it.",
               kind);
  if (run.compiler.attention == compile::AttentionKind::kUnfused)
    errors.add(
        "compiler.attention",
        "= unfused is not supported with objective.kind = {}, whose rows have two documents. "
        "Set it to fused.",
        kind);
  if (run.chat.learn == data::Learned::kEverything)
    errors.add("data.learn",
               "= {} is not supported with objective.kind = {}, which compares answers.",
               name_of_entry(run.chat.learn), kind);
}

}  // namespace

std::optional<PreferenceTerms> preference_terms(const ObjectiveSection& o) {
  if (!o.has_pairs()) return std::nullopt;
  PreferenceTerms t;
  t.kind = static_cast<PreferenceKind>(static_cast<int>(o.kind) - 1);
  if (t.has_log_probs())
    t.mean = o.log_probs == LogProbs::kAuto ? !is_sum(o.kind) : o.log_probs == LogProbs::kMean;
  t.beta = o.beta;
  if (o.kind == Kind::kSimpo) t.gamma = o.gamma;
  t.label_smoothing = o.label_smoothing;
  t.desirable_weight = o.desirable_weight;
  t.undesirable_weight = o.undesirable_weight;
  return t;
}

void check(const ObjectiveSection& o, const RunConfig& run, KeyErrors& errors) {
  check_own_keys(o, run, errors);
  if (!o.has_pairs()) return;
  check_data(o, run, errors);
  const std::string kind(name_of_entry(o.kind));
  if (run.loss.z_loss != 0)
    errors.add("loss.z_loss", "= {} is not supported with objective.kind = {}. Remove it.",
               run.loss.z_loss, kind);
  if (run.loss.label_smoothing != 0)
    errors.add("loss.label_smoothing",
               "= {} is not supported with objective.kind = {}. Remove it; dpo has "
               "objective.label_smoothing.",
               run.loss.label_smoothing, kind);
  if (o.kind == Kind::kReward && !run.evaluation.tasks.empty())
    errors.add("evaluation.tasks",
               "is not supported with objective.kind = reward, whose model has scores in place of "
               "the logits of tokens. Remove it.");
  if (run.model.mtp_depth > 0)
    errors.add("model.mtp_depth",
               "= {} is not supported with objective.kind = {}, which predicts no tokens. Set it "
               "to 0.",
               run.model.mtp_depth, kind);
  if (run.model.experts > 0 && run.model.router.capacity_factor > 0)
    errors.add("model.router.capacity_factor",
               "= {} is not supported with objective.kind = {}: the answers of a row would share "
               "the capacity, and the second would lose more tokens. Set it to 0.",
               run.model.router.capacity_factor, kind);
  if (run.model.experts > 0 && (run.model.router.balance_loss != 0 || run.model.router.z_loss != 0))
    errors.add("model.router.balance_loss",
               "and model.router.z_loss are means over tokens, which objective.kind = {} does not "
               "count. Set both to 0.",
               kind);
}

}  // namespace tessera::config
