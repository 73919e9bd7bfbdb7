#include "train/run_data.h"

#include <filesystem>
#include <set>

#include "base/error.h"
#include "data/dataset_about.h"
#include "data/tokenizer.h"

namespace tessera {

namespace {

std::vector<WeightedDataset> blend_of(const std::vector<DataSource>& sources) {
  std::vector<WeightedDataset> blend;
  for (const DataSource& source : sources) blend.push_back({source.prefix, source.weight});
  return blend;
}

// For messages.
std::string tokenizer_name(const RunConfig& config) {
  return config.data.tokenizer.empty() ? "the checkpoint's tokenizer" : config.data.tokenizer;
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
  try {
    spec.spans = span_objective(tokenizer);
  } catch (const Error& e) {
    throw Error("data.objective: {} ({})", e.what(), tokenizer_name(config));
  }
  spec.spans->how = {config.data.noise_density, config.data.mean_span};
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
  if (config.model.encoder_layers > 0) spec.target_length = config.data.target_length;
  return spec;
}

TrainingRows::TrainingRows(const RunConfig& config, int64_t vocabulary, const Tokenizer& tokenizer)
    : tokens_(config.data.sequence_length) {
  if (!config.data.instructions.empty()) {
    const InstructionSpec spec = instruction_spec(config);
    instructions_ = std::make_unique<InstructionData>(spec, tokenizer);
    if (spec.target_length > 0) {
      tokens_ = spec.target_length;
      source_ = spec.sequence_length;
    }
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

std::vector<std::string> foreign_datasets(const RunConfig& config, const Tokenizer& tokenizer) {
  std::set<std::string> prefixes;
  const auto add = [&](const std::vector<WeightedDataset>& sets) {
    for (const WeightedDataset& d : sets) prefixes.insert(d.prefix);
  };
  const DatasetSpec training = training_spec(config, tokenizer.vocabulary_size());
  add(training.datasets);
  for (const MixtureStage& stage : training.stages) add(stage.datasets);
  if (config.data.instructions.empty())
    for (const ValidationSource& source : config.data.validation) prefixes.insert(source.prefix);
  std::vector<std::string> out;
  for (const std::string& prefix : prefixes) {
    std::string found =
        foreign_tokenizer(IndexedDataset(prefix), tokenizer, tokenizer_name(config));
    if (!found.empty()) out.push_back(std::move(found));
  }
  return out;
}

std::vector<ValidationSpec> validation_specs(const RunConfig& config, int64_t vocabulary) {
  return validation_specs(config, training_spec(config, vocabulary));
}

std::vector<ValidationSpec> validation_specs(const RunConfig& config, DatasetSpec training) {
  std::vector<ValidationSpec> out;
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

std::vector<ValidationSet> validation_sets(const RunConfig& config, int64_t vocabulary,
                                           const Tokenizer& tokenizer) {
  std::vector<ValidationSet> out;
  if (config.data.instructions.empty()) {
    const DatasetSpec training = training_spec(config, vocabulary, tokenizer);
    for (const ValidationSpec& v : validation_specs(config, training))
      out.push_back({v.name, std::make_unique<ValidationData>(v.spec)});
    return out;
  }
  for (const ValidationSource& source : config.data.validation) {
    InstructionSpec spec = instruction_spec(config);
    spec.files = {source.prefix};
    out.push_back({source.name, std::make_unique<ValidationData>(spec, tokenizer)});
  }
  return out;
}

}  // namespace tessera
