// Validates the sets of a run: the loss per token, and bits per byte, which does not depend on the
// tokenizer; of pairs of answers, the loss per pair and the figures of the answers.
#include "train/run_validation.h"

#include <algorithm>
#include <numbers>

#include "comm/agree.h"

namespace tessera::train {

RunValidation::RunValidation(const config::RunConfig& config, const data::Tokenizer& tokenizer,
                             const comm::World& world)
    : limit_(config.metrics.validate_sequences),
      sets_(validation_sets(config, config.model.vocabulary, tokenizer)) {
  for (const ValidationSet& set : sets_) {
    const bool counts = world.rank() == 0 && set.data != nullptr;
    text_bytes_.push_back(counts ? static_cast<double>(set.data->text_bytes(tokenizer)) : 0);
  }
}

std::vector<data::PreferenceData*> RunValidation::pairs() const {
  std::vector<data::PreferenceData*> all;
  for (const ValidationSet& set : sets_)
    if (set.pairs) all.push_back(set.pairs.get());
  return all;
}

std::vector<ValidationMetrics> RunValidation::measure(Trainer& trainer, comm::World& world,
                                                      int64_t step,
                                                      const OnProgress& on_progress) const {
  std::vector<ValidationMetrics> out;
  for (size_t i = 0; i < sets_.size(); ++i) {
    const ValidationSet& set = sets_[i];
    const int64_t all = set.data ? set.data->samples() : set.pairs->pairs();
    const int64_t samples = limit_ > 0 ? std::min(limit_, all) : all;
    const auto told = [&](int64_t done) { on_progress(set.name, done, samples); };
    const ValidationResult r = set.data ? trainer.validate(*set.data, samples, told)
                                        : trainer.validate(*set.pairs, samples, told);
    comm::require_no_error(world, r.error);
    ValidationMetrics& m = out.emplace_back(ValidationMetrics{step, set.name, r.loss()});
    m.preference = r.preference;
    if (!set.data) continue;
    // A limited validation covers a fraction of the tokens, so the bytes of text are scaled by it.
    const double bytes =
        text_bytes_[i] * r.tokens / static_cast<double>(set.data->predicted_tokens());
    // The loss is in nats; ln 2 converts it to bits.
    m.bits_per_byte = r.loss_sum / std::numbers::ln2 / bytes;
  }
  return out;
}

}  // namespace tessera::train
