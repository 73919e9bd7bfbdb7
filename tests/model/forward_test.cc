#include "model/forward.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "model/presets.h"
#include "tests/every_family.h"

namespace tessera::model {
namespace {

ModelConfig small(Family family) {
  ModelConfig m;
  apply_family(family, m);
  m.layers = 2;
  m.hidden = 24;
  m.heads = m.kv_heads = 3;
  m.feed_forward = 40;
  m.vocabulary = 30;
  m.context = 16;
  if (rule_of(family).has_encoder) m.encoder_layers = 2;
  return m;
}

// The probabilities of dropout, those of embeddings first.
std::pair<std::vector<double>, std::vector<double>> probabilities(const ModelConfig& model) {
  const BatchForm form{.tokens = 8, .source = model.encoder_layers > 0 ? 8 : 0};
  const Graph graph = forward(model, form);
  std::vector<double> embeddings, outputs;
  for (const Block& block : graph.blocks)
    for (const Op& op : block.forward) {
      const Dropout* const dropout = op.if_as<Dropout>();
      if (dropout == nullptr) continue;
      bool embeds = false;
      for (const Op& before : block.forward)
        for (const ValueId out : before.outputs)
          embeds |= out == op.inputs[0] && !block.is_stack() &&
                    (before.is<Embedding>() || before.is<Scale>() || before.is<Sum>());
      (embeds ? embeddings : outputs).push_back(dropout->p);
    }
  return {embeddings, outputs};
}

TEST(Forward, LayersListedAlikeAreOneBlock) {
  ModelConfig m = small(Family::kLlama);
  m.layers = 6;
  const auto text = [&] {
    std::string all;
    for (const LayerKind& k : layer_kinds(m))
      all += fmt::format("{} {} {} {}{}\n", k.block, fmt::join(k.at, ","), k.rotary, k.feed_forward,
                         k.window > 0 ? fmt::format(" {}", k.window) : "");
    return all;
  };
  m.feed_forward = 64;
  EXPECT_EQ(text(), "layer 0,1,2,3,4,5 true 64\n");
  m.no_rope_layers = {2, 5};
  EXPECT_EQ(text(), "layer 0,1,3,4 true 64\nlayer_nope 2,5 false 64\n");
  m.wide_layers = {0, 1, 2};
  m.wide_feed_forward = 96;
  EXPECT_EQ(text(),
            "layer_wide 0,1 true 96\nlayer_nope_wide 2 false 96\nlayer 3,4 true 64\n"
            "layer_nope 5 false 64\n");
}

TEST(Forward, LayersWithAWindowAreAKind) {
  ModelConfig m = small(Family::kGemma3);
  m.layers = 5;
  m.window = 8;
  const auto text = [&] {
    std::string all;
    for (const LayerKind& k : layer_kinds(m))
      all += fmt::format("{} {} {} {}\n", k.block, fmt::join(k.at, ","), k.window, k.rope_theta);
    return all;
  };
  EXPECT_EQ(text(), "layer 0,1,2,3,4 8 0\n");
  m.window_layers = {0, 1, 3};
  m.window_rope_theta = 500;
  EXPECT_EQ(text(), "layer_window 0,1,3 8 500\nlayer 2,4 0 0\n");
}

// Frequencies of longrope follow the length of the sequences.
TEST(Forward, LongropeHasFactorsForShortAndLongSequences) {
  ModelConfig m = small(Family::kPhi3);
  m.rope_scaling.rope_type = RopeType::kLongrope;
  m.rope_scaling.factor = 4;
  m.rope_scaling.original_max_position_embeddings = 8;
  m.rope_scaling.short_factor.assign(4, 1.5);
  m.rope_scaling.long_factor.assign(4, 3);
  for (const int64_t tokens : {8, 9}) {
    const Graph graph = forward(m, 1, tokens);
    int turns = 0;
    for (const Block& block : graph.blocks)
      for (const Op& op : block.forward)
        if (const Rotary* const r = op.if_as<Rotary>()) {
          ++turns;
          EXPECT_EQ(r->scaling, RopeScaling::kLongrope);
          EXPECT_EQ(r->dividers, std::vector<double>(4, tokens > 8 ? 3 : 1.5));
          EXPECT_NEAR(r->magnitude, std::sqrt(1 + std::log(4.0) / std::log(8.0)), 1e-12);
        }
    EXPECT_EQ(turns, 1);
  }
}

TEST(Forward, EmbeddingsMayHaveADropoutOfTheirOwn) {
  for (const Family family : every_family()) {
    SCOPED_TRACE(rule_of(family).hf_type);
    ModelConfig m = small(family);
    const auto all = [](double p, size_t n) { return std::vector<double>(n, p); };
    const size_t tables = m.encoder_layers > 0 ? 2 : 1;
    m.dropout = 0.25;
    const auto [same, outputs] = probabilities(m);
    EXPECT_EQ(same, all(0.25, tables));
    EXPECT_FALSE(outputs.empty());
    EXPECT_EQ(outputs, all(0.25, outputs.size()));
    m.embedding_dropout = 0.5;
    EXPECT_EQ(probabilities(m), std::pair(all(0.5, tables), outputs));
    m.embedding_dropout = 0;
    EXPECT_EQ(probabilities(m), std::pair(all(0, 0), outputs));
    m.dropout = 0;
    m.embedding_dropout = 0.5;
    EXPECT_EQ(probabilities(m), std::pair(all(0.5, tables), all(0, 0)));
  }
}

}  // namespace
}  // namespace tessera::model
