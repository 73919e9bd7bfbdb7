// The tuner against random search: the objective is the simulator of a machine whose figures are up
// to 30 % off those of the prior, and some trials fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/philox.h"
#include "compile/compile.h"
#include "model/presets.h"
#include "plan/predict.h"
#include "plan/search.h"
#include "plan/tune.h"

namespace tessera::plan {
namespace {

constexpr uint64_t kSeeds = 20;
constexpr double kNear = 1.02, kOff = 0.3, kInjected = 0.05;

Hardware nominal() {
  Hardware h;
  h.device.memory_bytes = 1.1e6;
  h.device.memory_bytes_per_s = 2e11;
  h.device.memory_efficiency = 0.8;
  h.device.bf16_flops_per_s = 1e13;
  h.device.fp32_flops_per_s = 2e12;
  h.device.matrix_efficiency = 0.7;
  h.device.processors = 16;
  h.device.kernel_s = 1e-6;
  h.node.devices = 4;
  h.node.bytes_per_s = 2e10;
  h.node.efficiency = 0.7;
  h.node.latency_s = 1e-6;
  h.network.bytes_per_s = 4e9;
  h.network.efficiency = 0.7;
  h.network.latency_s = 5e-6;
  return h;
}

Hardware off(Hardware h, uint64_t seed) {
  const Philox random{hash_name("machine", seed)};
  uint64_t next = 0;
  for (double* figure : {&h.device.memory_bytes, &h.device.memory_bytes_per_s,
                         &h.device.bf16_flops_per_s, &h.device.kernel_s, &h.node.bytes_per_s,
                         &h.node.latency_s, &h.network.bytes_per_s, &h.network.latency_s})
    *figure *= 1 + kOff * (2 * static_cast<double>(Philox::uniform(random.block(next++)[0])) - 1);
  return h;
}

SearchRequest request() {
  SearchRequest r;
  model::ModelConfig& m = r.base.model;
  m.layers = 2;
  m.heads = 4;
  m.hidden = 64;
  m.vocabulary = 512;
  m.context = 32;
  model::derive_sizes(m);
  r.base.tokens = 32;
  r.base.precision = compile::Precision::kBf16;
  r.devices = 8;
  r.global = 16;
  r.most_interleave = 2;
  return r;
}

std::vector<std::string> choices_of(const Candidate& c) {
  const compile::Layout& l = c.layout;
  return {std::to_string(l.tensor),
          std::to_string(l.pipeline),
          std::to_string(c.micro),
          std::to_string(l.interleave),
          std::to_string(static_cast<int>(l.pipeline_schedule)),
          std::to_string(l.zero),
          l.recompute,
          l.sequence_parallel ? "true" : "false"};
}

Space space_of(const std::vector<Candidate>& all) {
  const char* const keys[] = {"tensor",   "pipeline", "micro",     "interleave",
                              "schedule", "zero",     "recompute", "sequence_parallel"};
  Space space;
  for (size_t k = 0; k < std::size(keys); ++k) {
    std::set<std::string> choices;
    for (const Candidate& c : all) choices.insert(choices_of(c)[k]);
    space.knobs.push_back({keys[k], {choices.begin(), choices.end()}, k < 4});
  }
  for (const Candidate& c : all) {
    Point p;
    const std::vector<std::string> choices = choices_of(c);
    for (size_t k = 0; k < choices.size(); ++k) {
      const auto& known = space.knobs[k].choices;
      p.push_back(
          static_cast<int>(std::find(known.begin(), known.end(), choices[k]) - known.begin()));
    }
    space.points.push_back(std::move(p));
  }
  return space;
}

struct Case {
  Space space;
  std::vector<PriorBelief> prior;
  std::vector<std::vector<TrialResult>> truth;  // of each seed and point
};

TrialResult outcome(const Prediction& p, const Hardware& h, uint64_t seed, size_t point) {
  if (static_cast<double>(p.fullest().peak_bytes) > h.device.memory_bytes)
    return {Outcome::kOutOfMemory, 0};
  const auto draw = Philox::uniform(Philox{hash_name("failure", seed)}.block(point)[0]);
  if (static_cast<double>(draw) < kInjected) return {Outcome::kTimeOut, 0};
  return {Outcome::kRan, p.step_s};
}

Case make_case() {
  const SearchRequest r = request();
  const std::vector<Candidate> all = candidates(r);
  Case c{space_of(all), {}, std::vector<std::vector<TrialResult>>(kSeeds)};
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<Program> stages =
        compile::compile_stages(request_of(r, all[i]), cluster_target());
    const Prediction believed = simulate(stages, nominal(), {});
    const double room = std::log(nominal().device.memory_bytes /
                                 static_cast<double>(believed.fullest().peak_bytes));
    c.prior.push_back({believed.step_s, std::clamp(12 * room, -5.0, 5.0)});
    for (uint64_t s = 0; s < kSeeds; ++s) {
      const Hardware h = off(nominal(), s);
      c.truth[s].push_back(outcome(simulate(stages, h, {}), h, s, i));
    }
  }
  return c;
}

double best_of(const std::vector<TrialResult>& truth) {
  double best = std::numeric_limits<double>::infinity();
  for (const TrialResult& t : truth)
    if (t.outcome == Outcome::kRan) best = std::min(best, t.seconds);
  return best;
}

bool is_near(const TrialResult& t, double best) {
  return t.outcome == Outcome::kRan && t.seconds <= kNear * best;
}

size_t tuned(const Case& c, uint64_t seed, bool with_prior) {
  Tuner tuner(c.space, with_prior ? c.prior : std::vector<PriorBelief>{}, {.seed = seed});
  const double best = best_of(c.truth[seed]);
  for (size_t trial = 1;; ++trial) {
    const size_t point = tuner.ask(1).at(0);
    if (is_near(c.truth[seed][point], best)) return trial;
    tuner.tell(point, c.truth[seed][point]);
  }
}

// Without repeats.
size_t drawn(const Case& c, uint64_t seed) {
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < c.space.points.size(); ++i)
    order.emplace_back(Philox{hash_name("random", seed)}.word(i), i);
  std::sort(order.begin(), order.end());
  const double best = best_of(c.truth[seed]);
  for (size_t trial = 0;; ++trial)
    if (is_near(c.truth[seed].at(order.at(trial).second), best)) return trial + 1;
}

size_t median(std::vector<size_t> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

TEST(TunerOnTheSimulator, NeedsHalfOfTheTrialsOfRandomSearch) {
  const Case c = make_case();
  std::vector<size_t> with, without, random;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    with.push_back(tuned(c, seed, true));
    without.push_back(tuned(c, seed, false));
    random.push_back(drawn(c, seed));
  }
  fmt::print("{} points, median trials: with prior {}, without {}, random {}\n",
             c.space.points.size(), median(with), median(without), median(random));
  EXPECT_LE(2 * median(with), median(random));
  EXPECT_LE(2 * median(without), median(random));
}

}  // namespace
}  // namespace tessera::plan
