// Validates the sets of a run: the loss per token, and bits per byte, which does not depend on the
// tokenizer.
#include "train/run_validation.h"

#include <algorithm>
#include <numbers>

#include "comm/agree.h"

namespace tessera::train {

RunValidation::RunValidation(const config::RunConfig& config, const data::Tokenizer& tokenizer,
                             const comm::World& world)
    : limit_(config.metrics.validate_sequences),
      sets_(validation_sets(config, config.model.vocabulary, tokenizer)) {
  for (const auto& [name, data] : sets_)
    text_bytes_.push_back(world.rank() == 0 ? static_cast<double>(data->text_bytes(tokenizer)) : 0);
}

std::vector<ValidationMetrics> RunValidation::measure(Trainer& trainer, comm::World& world,
                                                      int64_t step,
                                                      const OnProgress& on_progress) const {
  std::vector<ValidationMetrics> out;
  for (size_t i = 0; i < sets_.size(); ++i) {
    const auto& [name, data] = sets_[i];
    const int64_t samples = limit_ > 0 ? std::min(limit_, data->samples()) : data->samples();
    const ValidationResult r = trainer.validate(
        *data, samples, [&, &set = name](int64_t done) { on_progress(set, done, samples); });
    comm::require_no_error(world, r.error);
    // A limited validation covers a fraction of the tokens, so the bytes of text are scaled by it.
    const double bytes = text_bytes_[i] * r.tokens / static_cast<double>(data->predicted_tokens());
    // The loss is in nats; ln 2 converts it to bits.
    out.push_back({step, name, r.loss(), r.loss_sum / std::numbers::ln2 / bytes});
  }
  return out;
}

}  // namespace tessera::train
