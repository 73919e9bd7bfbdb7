// Measures the training loss of each dataset of a blend.
#include "train/source_losses.h"

#include <algorithm>
#include <filesystem>

namespace tessera::train {

std::vector<std::string> source_names(const std::vector<std::string>& prefixes) {
  const auto last = [](const std::string& p) {
    return std::filesystem::path(p).filename().string();
  };
  std::vector<std::string> names;
  for (const std::string& prefix : prefixes) {
    const bool unique =
        std::ranges::count_if(prefixes, [&](auto& p) { return last(p) == last(prefix); }) == 1;
    names.push_back(unique ? last(prefix) : prefix);
  }
  return names;
}

SourceLosses::SourceLosses(const config::RunConfig& config, TrainingInput& input) : input_(input) {
  const data::TrainingData* const data = input.rows().datasets();
  if (!data || data->datasets() < 2) return;
  every_ = config.metrics.source_loss_every_steps;
  // A prefix that is listed twice is one source.
  std::vector<std::string> prefixes;
  for (int i = 0; i < data->datasets(); ++i) {
    const auto known = std::ranges::find(prefixes, data->prefix(i));
    source_of_.push_back(static_cast<int>(known - prefixes.begin()));
    if (known == prefixes.end()) prefixes.push_back(data->prefix(i));
  }
  names_ = source_names(prefixes);
}

bool SourceLosses::due(int64_t step) const { return every_ > 0 && step % every_ == 0; }

std::vector<SourceMetrics> SourceLosses::measure(Trainer& trainer, int64_t step) const {
  std::vector<int> sources;
  const int64_t first = input_.samples_before(step - 1);
  for (int64_t s = first; s < first + input_.sequences_of(step); ++s)
    sources.push_back(source_of_[input_.dataset_of(s)]);
  const int count = static_cast<int>(names_.size());
  const std::vector<ValidationResult> losses = trainer.losses_by_group(sources, count);
  std::vector<SourceMetrics> out;
  for (int i = 0; i < count; ++i)
    if (losses[i].tokens > 0)
      out.push_back({step, names_[i], losses[i].loss(), std::llrint(losses[i].tokens)});
  return out;
}

}  // namespace tessera::train
