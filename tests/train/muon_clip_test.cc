// MuonClip in whole runs: after a step whose attention scores are above optimizer.qk_clip, the rows
// of queries and keys are those of a run without it, times the factor of their head. The scores are
// computed here from the initial weights, in double.
#include <cmath>
#include <map>

#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

constexpr double kLimit = 1e-4;

using State = std::map<std::string, std::vector<double>>;

// One layer, whose input is the table of embeddings, so that the scores are simple to compute.
config::RunConfig one_layer(model::Family family) {
  config::RunConfig c = tiny(family);
  c.model.layers = 1;
  if (model::rule_of(family).latent)
    c.model.latent = {
        .query_rank = 12, .key_value_rank = 16, .nope_width = 8, .rope_width = 4, .value_width = 6};
  model::derive_sizes(c.model);
  c.optimizer = config::optimizer_defaults(OptimizerKind::kMuon);
  return c;
}

State state_of(Trainer& trainer) {
  State all;
  for (const checkpoint::StateTensor& t : trainer.state())
    for (int64_t i = 0; i < t.data.elements(); ++i)
      all[t.name].push_back(static_cast<double>(t.data.f32()[i]));
  return all;
}

// The state before and after one step.
std::pair<State, State> one_step(config::RunConfig c, double limit) {
  c.optimizer.qk_clip = limit;
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialize();
  State before = state_of(trainer);
  data::BatchSource source = batches(c);
  EXPECT_TRUE(trainer.step(1, 1e-2, source).finite);
  return {std::move(before), state_of(trainer)};
}

// The vector of a row of the packed weight [K, G+2, D, F] for a normalized input, rotated to a
// place: pairs of a head's halves (Su et al. 2021), with base 10,000.
std::vector<double> rotated(const std::vector<double>& weight, int64_t row, int64_t width,
                            const std::vector<double>& x, int64_t place) {
  std::vector<double> y(static_cast<size_t>(width)), out(y.size());
  for (int64_t d = 0; d < width; ++d)
    for (size_t f = 0; f < x.size(); ++f)
      y[static_cast<size_t>(d)] +=
          weight[static_cast<size_t>(row * width + d) * x.size() + f] * x[f];
  const size_t half = y.size() / 2;
  for (size_t d = 0; d < half; ++d) {
    const double angle = static_cast<double>(place) *
                         std::pow(1e4, -2.0 * static_cast<double>(d) / static_cast<double>(width));
    out[d] = y[d] * std::cos(angle) - y[d + half] * std::sin(angle);
    out[d + half] = y[d + half] * std::cos(angle) + y[d] * std::sin(angle);
  }
  return out;
}

// The largest score of each key/value head in the first step.
std::vector<double> scores(const config::RunConfig& c, const State& weights) {
  const int64_t kv = c.model.kv_heads, group = c.model.heads / kv;
  const int64_t width = c.model.hidden / c.model.heads, tokens = c.data.sequence_length;
  const auto hidden = static_cast<size_t>(c.model.hidden);
  const std::vector<double>&table = weights.at("embed.weight"),
        &qkv = weights.at("layer0.attn.qkv.weight");
  std::vector<double> most(static_cast<size_t>(kv), 0);
  for (int64_t sample = 0; sample < c.batch.global; ++sample) {
    std::vector<std::vector<double>> x;
    for (int64_t t = 0; t < tokens; ++t) {
      const auto id = static_cast<size_t>((sample * 31 + t * t * 7 + 3) % 96);  // as batches()
      x.emplace_back(table.begin() + static_cast<std::ptrdiff_t>(id * hidden),
                     table.begin() + static_cast<std::ptrdiff_t>((id + 1) * hidden));
      double squares = 0;
      for (const double v : x.back()) squares += v * v;
      const double root = std::sqrt(squares / static_cast<double>(hidden) + c.model.norm_epsilon);
      for (double& v : x.back()) v /= root;
    }
    for (int64_t k = 0; k < kv; ++k)
      for (int64_t j = 0; j < tokens; ++j) {
        const int64_t rows = k * (group + 2);
        const auto key = rotated(qkv, rows + group, width, x[static_cast<size_t>(j)], j);
        for (int64_t g = 0; g < group; ++g)
          for (int64_t i = j; i < tokens; ++i) {
            const auto query = rotated(qkv, rows + g, width, x[static_cast<size_t>(i)], i);
            double dot = 0;
            for (size_t d = 0; d < key.size(); ++d) dot += query[d] * key[d];
            most[static_cast<size_t>(k)] =
                std::max(most[static_cast<size_t>(k)], dot / std::sqrt(static_cast<double>(width)));
          }
      }
  }
  return most;
}

TEST(MuonClip, ScalesQueriesAndKeysByTheScoresOfTheirHeads) {
  const config::RunConfig c = one_layer(model::Family::kLlama);
  const auto [before, plain] = one_step(c, 0);
  const auto [same, clipped] = one_step(c, kLimit);
  const std::vector<double> most = scores(c, before);
  const int64_t group = c.model.heads / c.model.kv_heads, slots = group + 2;
  const int64_t slot = c.model.hidden / c.model.heads * c.model.hidden;
  for (const auto& [name, values] : plain)
    for (size_t i = 0; i < values.size(); ++i) {
      double factor = 1;
      if (name == "layer0.attn.qkv.weight" && static_cast<int64_t>(i) / slot % slots != group + 1) {
        const double score = most[i / static_cast<size_t>(slot * slots)];
        ASSERT_GT(score, 2 * kLimit);
        factor = std::sqrt(kLimit / score);
      }
      ASSERT_NEAR(clipped.at(name)[i], factor * values[i], 1e-5 * std::abs(factor * values[i]))
          << name << " " << i;
    }
}

// Of latent attention: the plain rows of a head by the root of its factor, the rotated ones of
// queries by all of it, the values and the shared key not at all.
TEST(MuonClip, OfLatentAttentionTreatsThePartsOfAHeadDifferently) {
  const config::RunConfig c = one_layer(model::Family::kDeepseekV3);
  const auto [before, plain] = one_step(c, 0);
  const auto [same, clipped] = one_step(c, kLimit);
  const model::LatentConfig& l = c.model.latent;
  const auto ratio = [&](const std::string& name, int64_t row, int64_t columns) {
    const auto at = static_cast<size_t>(row * columns);
    return clipped.at(name)[at] / plain.at(name)[at];
  };
  for (int64_t h = 0; h < c.model.heads; ++h) {
    const int64_t q = h * (l.nope_width + l.rope_width), kv = h * (l.nope_width + l.value_width);
    const double root = ratio("layer0.attn.q_up.weight", q, l.query_rank);
    EXPECT_LT(root, 0.9);
    for (int64_t r = 0; r < l.nope_width; ++r) {
      EXPECT_NEAR(ratio("layer0.attn.q_up.weight", q + r, l.query_rank), root, 1e-5);
      EXPECT_NEAR(ratio("layer0.attn.kv_up.weight", kv + r, l.key_value_rank), root, 1e-5);
    }
    for (int64_t r = 0; r < l.rope_width; ++r)
      EXPECT_NEAR(ratio("layer0.attn.q_up.weight", q + l.nope_width + r, l.query_rank), root * root,
                  1e-5);
    for (int64_t r = 0; r < l.value_width; ++r)
      EXPECT_EQ(ratio("layer0.attn.kv_up.weight", kv + l.nope_width + r, l.key_value_rank), 1);
  }
  for (const auto& [name, values] : plain)
    if (name.find("q_up") == name.npos && name.find("kv_up") == name.npos) {
      EXPECT_EQ(clipped.at(name), values) << name;
    }
}

// A limit that no score reaches changes no bit.
TEST(MuonClip, AboveAllScoresChangesNothing) {
  const config::RunConfig c = one_layer(model::Family::kMixtral);
  EXPECT_EQ(one_step(c, 0).second, one_step(c, 1e6).second);
}

}  // namespace
}  // namespace tessera::train
