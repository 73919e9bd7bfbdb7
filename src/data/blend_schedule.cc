// A sequence of blends, each used from its first sample on. The positions of all sources at the
// start of a stage are the sums over the stages before it; they are counted when a sample of the
// stage is first requested.
#include "data/blend_schedule.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tessera::data {

BlendSchedule::BlendSchedule(std::vector<Stage> stages, int sources,
                             const std::optional<Start>& start) {
  CHECK(!stages.empty() && (start || stages[0].first_sample == 0), "a mixture without a beginning");
  for (Stage& stage : stages) {
    CHECK(stages_.empty() || stage.first_sample > stages_.back().stage.first_sample,
          "a stage from sample {} after one from {}", stage.first_sample,
          stages_.back().stage.first_sample);
    CHECK(stage.sources.size() == stage.weights.size(), "{} weights for {} sources",
          stage.weights.size(), stage.sources.size());
    Blend blend(stage.weights);
    stages_.push_back({std::move(stage), std::move(blend), {}});
  }
  Running& first = stages_[0];
  first.before = start ? start->before : std::vector<int64_t>(sources, 0);
  if (!start) return;
  std::vector<int64_t> given;
  for (const int s : first.stage.sources) {
    const size_t i = s;
    // The samples that the first stage has already given, so that its blend continues with the next
    // choice.
    given.push_back(start->given[i] - start->before[i]);
  }
  const int64_t sum = std::accumulate(given.begin(), given.end(), int64_t{0});
  CHECK(sum == start->sample - first.stage.first_sample, "{} samples of {}", sum, start->sample);
  first.blend.continue_from(given);
}

int BlendSchedule::stage_of(int64_t sample) const {
  const auto after = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Running& r) { return r.stage.first_sample > sample; });
  return static_cast<int>(after - stages_.begin()) - 1;
}

void BlendSchedule::add_given(Running& stage, int64_t until, std::vector<int64_t>& counts) const {
  const auto given = stage.blend.given(until - stage.stage.first_sample);
  for (size_t i = 0; i < given.size(); ++i) counts[stage.stage.sources[i]] += given[i];
}

BlendSchedule::Running& BlendSchedule::stage_with_counts(int64_t sample) {
  const size_t found = stage_of(sample);
  // Counts the stages in order, each from the one before it.
  for (size_t s = 1; s <= found; ++s) {
    if (!stages_[s].before.empty()) continue;
    std::vector<int64_t> before = stages_[s - 1].before;
    add_given(stages_[s - 1], stages_[s].stage.first_sample, before);
    stages_[s].before = std::move(before);
  }
  return stages_[found];
}

Blend::Pick BlendSchedule::at(int64_t sample) {
  CHECK(sample >= first_sample(), "sample {} before {}", sample, first_sample());
  Running& now = stage_with_counts(sample);
  const Blend::Pick pick = now.blend.at(sample - now.stage.first_sample);
  const int source = now.stage.sources[pick.source];
  return {source, pick.index + now.before[source]};
}

BlendSchedule::Counts BlendSchedule::counts(int64_t sample) {
  CHECK(sample >= first_sample(), "sample {} before {}", sample, first_sample());
  Running& now = stage_with_counts(sample);
  Counts counts{&now.stage, now.before, now.before};
  add_given(now, sample, counts.given);
  return counts;
}

// Sums, over the stages, the length of the stage times the source's share in it.
double BlendSchedule::expected(int source, int64_t samples) const {
  auto sum = static_cast<double>(stages_[0].before[source]);
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

}  // namespace tessera::data
