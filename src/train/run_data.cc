#include "train/run_data.h"

#include <filesystem>

#include "base/error.h"
#include "data/tokenizer.h"

namespace tessera {

namespace {

std::vector<WeightedDataset> blend_of(const std::vector<DataSource>& sources) {
  std::vector<WeightedDataset> blend;
  for (const DataSource& source : sources) blend.push_back({source.prefix, source.weight});
  return blend;
}

}  // namespace

DatasetSpec training_spec(const RunConfig& config, int64_t vocabulary) {
  DatasetSpec spec;
  spec.datasets = blend_of(config.data.train);
  for (const DataStage& stage : config.data.stages) {
    spec.stages.push_back({stage.from_tokens, blend_of(stage.train)});
  }
  spec.size_exponent = config.data.size_exponent;
  spec.documents_apart = config.data.documents_apart;
  spec.split = config.data.split;
  spec.sequence_length = config.data.sequence_length;
  spec.seed = static_cast<uint64_t>(config.run.seed);
  spec.vocabulary = vocabulary;
  return spec;
}

DatasetSpec training_spec(const RunConfig& config, int64_t vocabulary, const Tokenizer& tokenizer) {
  DatasetSpec spec = training_spec(config, vocabulary);
  if (config.data.objective != Objective::kSpanCorruption) return spec;
  if (!tokenizer.end_of_text() || tokenizer.sentinels() == 0) {
    throw Error(
        "data.objective: span_corruption needs a tokenizer with </s> and sentinels; {} has {}. "
        "Wanted a T5 model, or: tessera tokenizer train --kind unigram --sentinels 100",
        config.data.tokenizer, tokenizer.end_of_text() ? "no sentinels" : "no </s>");
  }
  SpanObjective spans;
  spans.how = {config.data.noise_density, config.data.mean_span};
  spans.ids = {tokenizer.vocabulary_size() - 1, *tokenizer.end_of_text()};
  spans.sentinels = tokenizer.sentinels();
  spec.spans = spans;
  return spec;
}

InstructionSpec instruction_spec(const RunConfig& config) {
  InstructionSpec spec;
  spec.files = config.data.instructions;
  spec.form = config.data.form;
  spec.sequence_length = config.data.sequence_length;
  spec.seed = static_cast<uint64_t>(config.run.seed);
  spec.long_examples = config.data.long_examples;
  spec.documents_apart = config.data.documents_apart;
  return spec;
}

TrainingRows::TrainingRows(const RunConfig& config, int64_t vocabulary, const Tokenizer& tokenizer)
    : tokens_(config.data.sequence_length) {
  if (!config.data.instructions.empty()) {
    instructions_ = std::make_unique<InstructionData>(instruction_spec(config), tokenizer);
    return;
  }
  datasets_ = std::make_unique<TrainingData>(training_spec(config, vocabulary, tokenizer));
  tokens_ = datasets_->row_tokens();
  source_ = datasets_->row_source();
}

void TrainingRows::read_row(int64_t sample, const SampleRow& row) {
  if (instructions_) return instructions_->read_row(sample, row);
  datasets_->read_row(sample, row);
}

int64_t TrainingRows::tokens() const {
  return instructions_ ? instructions_->tokens() : datasets_->tokens();
}

double TrainingRows::epochs(int64_t samples) const {
  if (!instructions_) return datasets_->epochs(samples);
  return static_cast<double>(samples) / static_cast<double>(instructions_->rows());
}

std::vector<ValidationSpec> validation_specs(const RunConfig& config, int64_t vocabulary) {
  std::vector<ValidationSpec> out;
  DatasetSpec training = training_spec(config, vocabulary);
  training.stages.clear();
  for (const ValidationSource& source : config.data.validation) {
    ValidationSpec v{source.name, training};
    v.spec.datasets = {{source.prefix, 1}};
    v.spec.split.clear();
    out.push_back(std::move(v));
  }
  constexpr int kValidation = 1;
  constexpr int64_t kMany = 1'000'000;  // sequences; only whether the share is 0 matters here
  const bool part =
      !training.split.empty() && split_range(training.split, kValidation, kMany).size() > 0;
  if (!out.empty() || !part) return out;
  for (const WeightedDataset& dataset : training.datasets) {
    ValidationSpec v{std::filesystem::path(dataset.prefix).filename().string(), training};
    v.spec.datasets = {dataset};
    v.spec.part = kValidation;
    out.push_back(std::move(v));
  }
  return out;
}

}  // namespace tessera
