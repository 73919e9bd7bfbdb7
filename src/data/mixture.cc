#include "data/mixture.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {

Mixture::Mixture(std::vector<Stage> stages, int sources) {
  CHECK(!stages.empty() && stages[0].first_sample == 0, "a mixture without a beginning");
  for (Stage& stage : stages) {
    CHECK(stages_.empty() || stage.first_sample > stages_.back().stage.first_sample,
          "a stage from sample {} behind one from {}", stage.first_sample,
          stages_.back().stage.first_sample);
    CHECK(stage.sources.size() == stage.weights.size(), "{} weights for {} sources",
          stage.weights.size(), stage.sources.size());
    Blend blend(stage.weights);
    stages_.push_back({std::move(stage), std::move(blend), {}});
  }
  stages_[0].before.assign(static_cast<size_t>(sources), 0);
}

int Mixture::stage_of(int64_t sample) const {
  const auto after = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Running& r) { return r.stage.first_sample > sample; });
  return static_cast<int>(after - stages_.begin()) - 1;
}

Mixture::Running& Mixture::stage_with_counts(int64_t sample) {
  const auto wanted = static_cast<size_t>(stage_of(sample));
  for (size_t s = 1; s <= wanted; ++s) {
    if (!stages_[s].before.empty()) continue;
    Running& last = stages_[s - 1];
    std::vector<int64_t> before = last.before;
    const auto given = last.blend.given(stages_[s].stage.first_sample - last.stage.first_sample);
    for (size_t i = 0; i < given.size(); ++i) {
      before[static_cast<size_t>(last.stage.sources[i])] += given[i];
    }
    stages_[s].before = std::move(before);
  }
  return stages_[wanted];
}

Blend::Pick Mixture::at(int64_t sample) {
  CHECK(sample >= 0, "sample {}", sample);
  Running& now = stage_with_counts(sample);
  const Blend::Pick pick = now.blend.at(sample - now.stage.first_sample);
  const int source = now.stage.sources[static_cast<size_t>(pick.source)];
  return {source, pick.index + now.before[static_cast<size_t>(source)]};
}

double Mixture::expected(int source, int64_t samples) const {
  double sum = 0;
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Stage& stage = stages_[s].stage;
    const int64_t end =
        s + 1 < stages_.size() ? std::min(samples, stages_[s + 1].stage.first_sample) : samples;
    double all = 0, ours = 0;
    for (size_t i = 0; i < stage.sources.size(); ++i) {
      all += stage.weights[i];
      if (stage.sources[i] == source) ours = stage.weights[i];
    }
    sum += static_cast<double>(std::max<int64_t>(0, end - stage.first_sample)) * ours / all;
  }
  return sum;
}

}  // namespace tessera
