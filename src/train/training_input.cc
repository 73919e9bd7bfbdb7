// Opens the data of a run at the position where the run continues.
#include "train/training_input.h"

#include "base/real.h"
#include "ir/ops/preference.h"
#include "train/run_programs.h"

namespace tessera::train {
namespace {

const config::RunConfig& checked(const config::RunConfig& config,
                                 const data::Tokenizer& tokenizer) {
  require_own_datasets(config, tokenizer);
  return config;
}

}  // namespace

TrainingInput::TrainingInput(const config::RunConfig& config, const data::Tokenizer& tokenizer)
    : rows_(checked(config, tokenizer), config.model.vocabulary, tokenizer) {}

void TrainingInput::begin(const config::RunConfig& config, int64_t data_rank,
                          const std::optional<RunPosition>& from) {
  data::BatchShape shape = with_row_lengths(config::batch_shape(config, data_rank), rows_);
  if (from) {
    rows_.continue_from(from->data, config.checkpoint.allow_changes);
    shape = resumed(std::move(shape), *from);
  }
  weighs_tokens_ = config.objective.kind == config::ObjectiveKind::kOrpo;
  batches_ = std::make_unique<data::BatchSource>(
      shape, [this](int64_t sample, const data::SampleRow& row) { read_row(sample, row); });
}

void TrainingInput::read_row(int64_t sample, const data::SampleRow& row) {
  rows_.read_row(sample, row);
  if (weighs_tokens_) row.references[kPairFigure] = chosen_factor(sample);
}

// Returns pairs / tokens of chosen answers in the step of a sample: a step's sum over tokens times
// it, divided by the pairs, is the mean over the tokens. Only the thread that reads ahead calls it.
double TrainingInput::chosen_factor(int64_t sample) {
  const data::BatchShape& shape = batches_->shape();
  const int64_t step = shape.step_of(sample);
  if (step == factor_step_) return factor_;
  const int64_t first = shape.samples_before(step), pairs = shape.global_at(step);
  int64_t tokens = 0;
  for (int64_t s = first; s < first + pairs; ++s)
    tokens += rows_.preferences()->chosen_tokens(rows_.pair_of(s));
  factor_step_ = step;
  factor_ = ratio(pairs, tokens);
  return factor_;
}

int64_t TrainingInput::sequences_of(int64_t step) const {
  return batches_->shape().global_at(step - 1);
}

int64_t TrainingInput::samples_before(int64_t steps) const {
  return batches_->shape().samples_before(steps);
}

int64_t TrainingInput::tokens_after(int64_t steps) const {
  return batches_->shape().tokens_before(steps);
}

int TrainingInput::dataset_of(int64_t sample) { return rows_.dataset_of(sample); }

Tree TrainingInput::position_after(int64_t step) {
  const data::BatchShape& shape = batches_->shape();
  return to_tree(train::position_after(step, rows_.position(shape.samples_before(step)), shape));
}

}  // namespace tessera::train
