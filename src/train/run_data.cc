#include "train/run_data.h"

#include <filesystem>

namespace tessera {

DatasetSpec training_spec(const RunConfig& config, int64_t vocabulary) {
  DatasetSpec spec;
  for (const DataSource& source : config.data.train) {
    spec.datasets.push_back({source.prefix, source.weight});
  }
  spec.split = config.data.split;
  spec.sequence_length = config.data.sequence_length;
  spec.seed = static_cast<uint64_t>(config.run.seed);
  spec.vocabulary = vocabulary;
  return spec;
}

std::vector<ValidationSpec> validation_specs(const RunConfig& config, int64_t vocabulary) {
  std::vector<ValidationSpec> out;
  const DatasetSpec training = training_spec(config, vocabulary);
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
