// Translates the run file's `data` section to the specifications of the data module, and provides
// one interface for datasets and instruction files.
#include "train/run_data.h"

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/real.h"
#include "data/dataset_about.h"
#include "data/encode_cache.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"
#include "train/load_run.h"

namespace tessera::train {

namespace {

std::vector<data::WeightedDataset> blend_of(const std::vector<config::DataSource>& sources) {
  std::vector<data::WeightedDataset> blend;
  for (const config::DataSource& source : sources) blend.push_back({source.prefix, source.weight});
  return blend;
}

// Returns the name of the tokenizer for messages.
std::string tokenizer_name(const config::RunConfig& config) {
  return config.data.tokenizer.empty() ? "the checkpoint's tokenizer" : config.data.tokenizer;
}

// Returns text that identifies the instructions: counts, and a chained hash of their tokens and of
// which tokens are learned, so that a change of the template is detected too.
std::string identity_of(const data::InstructionData& data) {
  uint64_t hash = 0;
  const auto add = [&](const auto& values) {
    const auto bytes = std::as_bytes(values);
    const uint64_t two[] = {
        hash, data::hash_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()})};
    hash = data::hash_bytes({reinterpret_cast<const char*>(two), sizeof two});
  };
  for (int64_t e = 0; e < data.examples(); ++e) {
    add(data.ids(e));
    add(data.learned(e));
  }
  return fmt::format("{} examples in {} rows, {} tokens, hash {:016x}", data.examples(),
                     data.rows(), data.tokens(), hash);
}

std::string identity_of(const data::PreferenceData& data) {
  return fmt::format("{} pairs, {} tokens, hash {:016x}", data.pairs(), data.tokens(),
                     data.fingerprint());
}

data::PreferenceUse use_of(config::ObjectiveKind kind) {
  if (kind == config::ObjectiveKind::kKto) return data::PreferenceUse::kExamples;
  return kind == config::ObjectiveKind::kReward ? data::PreferenceUse::kScores
                                                : data::PreferenceUse::kPairs;
}

}  // namespace

data::DatasetSpec training_spec(const config::RunConfig& config, int64_t vocabulary) {
  data::DatasetSpec spec;
  spec.datasets = blend_of(config.data.train);
  for (const config::BlendStageConfig& stage : config.data.stages) {
    spec.stages.push_back({stage.from_tokens, blend_of(stage.train)});
  }
  spec.size_exponent = config.data.size_exponent;
  spec.intra_document_masking = config.data.intra_document_masking;
  spec.split = config.data.split;
  spec.sequence_length = config.data.sequence_length;
  spec.seed = config.run.seed;
  spec.vocabulary = vocabulary;
  return spec;
}

data::DatasetSpec training_spec(const config::RunConfig& config, int64_t vocabulary,
                                const data::Tokenizer& tokenizer) {
  data::DatasetSpec spec = training_spec(config, vocabulary);
  if (config.data.objective != config::Objective::kSpanCorruption) return spec;
  try {
    spec.spans = data::span_objective(tokenizer);
  } catch (const Error& e) {
    throw Error("data.objective: {} ({})", e.what(), tokenizer_name(config));
  }
  spec.spans->how = {config.data.noise_density, config.data.mean_span};
  return spec;
}

data::InstructionSpec instruction_spec(const config::RunConfig& config,
                                       const data::Tokenizer& tokenizer) {
  data::InstructionSpec spec;
  spec.files = config.data.instructions;
  spec.form = config.data.form;
  spec.sequence_length = config.data.sequence_length;
  spec.seed = config.run.seed;
  spec.long_examples = config.data.long_examples;
  spec.intra_document_masking = config.data.intra_document_masking;
  if (spec.form.empty()) spec.chat = chat_spec(config, tokenizer);
  if (config.model.encoder_layers > 0) spec.target_length = config.data.target_length;
  return spec;
}

std::unique_ptr<data::PreferenceData> preference_data(const config::RunConfig& config,
                                                      const data::InstructionSpec& spec,
                                                      const data::Tokenizer& tokenizer) {
  return std::make_unique<data::PreferenceData>(spec, use_of(config.objective.kind), tokenizer);
}

// Opens one of the two kinds of data. Instructions count as a single source, whose position is a
// row number.
TrainingRowReader::TrainingRowReader(const config::RunConfig& config, int64_t vocabulary,
                                     const data::Tokenizer& tokenizer)
    : tokens_(config.data.sequence_length) {
  if (config.model.encoder_layers > 0) data::require_padding(tokenizer, tokenizer_name(config));
  if (config.objective.has_pairs()) {
    const data::InstructionSpec spec = instruction_spec(config, tokenizer);
    preferences_ = preference_data(config, spec, tokenizer);
    start_.order = {spec.sequence_length, spec.seed, ""};
    start_.sources = {{fmt::format("{}", fmt::join(spec.files, ", ")), identity_of(*preferences_),
                       0, 0, preferences_->pairs(), 1}};
    return;
  }
  if (!config.data.instructions.empty()) {
    const data::InstructionSpec spec = instruction_spec(config, tokenizer);
    instructions_ = std::make_unique<data::InstructionData>(spec, tokenizer);
    start_.order = {spec.sequence_length, spec.seed, ""};
    start_.sources = {{fmt::format("{}", fmt::join(spec.files, ", ")), identity_of(*instructions_),
                       0, 0, instructions_->rows(), 1}};
    if (spec.target_length > 0) {
      tokens_ = spec.target_length;
      source_ = spec.sequence_length;
    }
    return;
  }
  datasets_ = std::make_unique<data::TrainingData>(training_spec(config, vocabulary, tokenizer));
  tokens_ = datasets_->row_tokens();
  source_ = datasets_->row_source();
}

// Samples count from the start of the run; rows of instructions from the start of their files. Both
// advance in step from (first_sample_, first_row_), which differ if the run trained on other data
// before.
void TrainingRowReader::read_row(int64_t sample, const data::SampleRow& row) {
  if (instructions_) return instructions_->read_row(first_row_ + sample - first_sample_, row);
  if (preferences_) return preferences_->read_pair(pair_of(sample), row);
  datasets_->read_row(sample, row);
}

void TrainingRowReader::continue_from(const data::DataPosition& saved, bool changes) {
  if (datasets_) return datasets_->continue_from(saved, changes);
  data::SourcePosition ours = start_.sources.front();
  // The files of instructions count as one source with one position.
  const data::SourcePosition* then =
      data::find_source(saved, ours.name, ours.identity, {ours.name});
  if (then && !changes) data::require_same_source(*then, ours.identity);
  const bool same = then && (then->identity.empty() || then->identity == ours.identity) &&
                    saved.order == start_.order;
  ours.samples = then ? data::continued_sample(*then, same, ours.epoch_samples) : 0;
  start_.tokens = saved.tokens;
  start_.sources = {ours};
  for (data::SourcePosition s : saved.sources) {  // kept in case a later start uses them again
    if (then && s.name == then->name) continue;
    s.before = s.samples;
    s.weight = 0;
    start_.sources.push_back(std::move(s));
  }
  first_sample_ = saved.samples;
  first_row_ = ours.samples;
}

// Returns the position after `samples` samples: the position at the start of this process, advanced
// by the rows that were read since.
data::DataPosition TrainingRowReader::position(int64_t samples) {
  if (datasets_) return datasets_->position(samples);
  data::DataPosition p = start_;
  p.samples = p.blend_sample = samples;
  p.tokens += (samples - first_sample_) * p.order.sample_tokens;
  p.sources.front().samples = p.sources.front().before = first_row_ + samples - first_sample_;
  return p;
}

int64_t TrainingRowReader::tokens() const {
  if (preferences_) return preferences_->tokens();
  return instructions_ ? instructions_->tokens() : datasets_->tokens();
}

int64_t TrainingRowReader::rows_per_epoch() const {
  return preferences_ ? preferences_->pairs() : instructions_->rows();
}

std::optional<data::InstructionCounts> TrainingRowReader::counts() const {
  if (preferences_) return preferences_->counts();
  if (instructions_) return instructions_->counts();
  return std::nullopt;
}

TrainingRowReader::MostRead TrainingRowReader::most_read(int64_t samples) const {
  if (!datasets_) return {ratio(first_row_ + samples - first_sample_, rows_per_epoch()), ""};
  const auto [dataset, epochs] = datasets_->most_read(samples);
  return {epochs, datasets_->datasets() > 1 ? datasets_->prefix(dataset) : ""};
}

void require_own_datasets(const config::RunConfig& config, const data::Tokenizer& tokenizer) {
  if (config.data.allow_foreign_tokenizer) return;
  std::set<std::string> prefixes;
  const auto add = [&](const std::vector<data::WeightedDataset>& sets) {
    for (const data::WeightedDataset& d : sets) prefixes.insert(d.prefix);
  };
  const data::DatasetSpec training = training_spec(config, tokenizer.vocabulary_size());
  add(training.datasets);
  for (const data::MixtureStage& stage : training.stages) add(stage.datasets);
  if (config.data.instructions.empty())
    for (const config::ValidationSource& source : config.data.validation)
      prefixes.insert(source.prefix);
  // `prefixes` is a set, so that a dataset of several stages is read once.
  for (const std::string& prefix : prefixes) {
    const std::string found =
        data::foreign_tokenizer(data::IndexedDataset(prefix), tokenizer, tokenizer_name(config));
    if (found.empty()) continue;
    throw Error(
        "data: {}. Build the dataset with this tokenizer, set data.tokenizer to the one it was "
        "built with, or set data.allow_foreign_tokenizer=true",
        found);
  }
}

std::vector<ValidationSpec> validation_specs(const config::RunConfig& config, int64_t vocabulary) {
  return validation_specs(config, training_spec(config, vocabulary));
}

std::vector<ValidationSpec> validation_specs(const config::RunConfig& config,
                                             data::DatasetSpec training) {
  // A validation set is read from its start, as one dataset without stages and without a split.
  std::vector<ValidationSpec> out;
  training.stages.clear();
  for (const config::ValidationSource& source : config.data.validation) {
    ValidationSpec v{source.name, training};
    v.spec.datasets = {{source.prefix, 1}};
    v.spec.split.clear();
    out.push_back(std::move(v));
  }
  constexpr int kValidation = 1;
  constexpr int64_t kMany = 1'000'000;  // sequences; only whether the share is 0 matters here
  // Without sets in data.validation, the second part of data.split is used, if it is not empty.
  const bool part =
      !training.split.empty() && data::split_range(training.split, kValidation, kMany).size() > 0;
  if (!out.empty() || !part) return out;
  for (const data::WeightedDataset& dataset : training.datasets) {
    ValidationSpec v{std::filesystem::path(dataset.prefix).filename().string(), training};
    v.spec.datasets = {dataset};
    v.spec.part = kValidation;
    out.push_back(std::move(v));
  }
  return out;
}

std::vector<ValidationSet> validation_sets(const config::RunConfig& config, int64_t vocabulary,
                                           const data::Tokenizer& tokenizer) {
  std::vector<ValidationSet> out;
  if (config.data.instructions.empty()) {
    const data::DatasetSpec training = training_spec(config, vocabulary, tokenizer);
    for (const ValidationSpec& v : validation_specs(config, training))
      out.push_back({v.name, std::make_unique<data::ValidationData>(v.spec), nullptr});
    return out;
  }
  for (const config::ValidationSource& source : config.data.validation) {
    data::InstructionSpec spec = instruction_spec(config, tokenizer);
    spec.files = {source.prefix};
    if (config.objective.has_pairs())
      out.push_back({source.name, nullptr, preference_data(config, spec, tokenizer)});
    else
      out.push_back(
          {source.name, std::make_unique<data::ValidationData>(spec, tokenizer), nullptr});
  }
  return out;
}

}  // namespace tessera::train
