// Attention scores are measured, and the rows of queries and keys are marked with their share of
// the factor.
#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/schedule/layer_costs.h"
#include "model/family.h"
#include "model/forward.h"
#include "model/presets.h"
#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {
namespace {

CompileRequest clipped(model::Family family) {
  CompileRequest r = testing::tiny_request(family);
  if (model::rule_of(family).latent)
    r.model.latent = {
        .query_rank = 4, .key_value_rank = 4, .nope_width = 6, .rope_width = 2, .value_width = 4};
  model::derive_sizes(r.model);
  r.optimizer.kind = OptimizerKind::kMuon;
  r.optimizer.qk_clip = 100;
  return r;
}

Graph forward_of(const CompileRequest& r) {
  Graph g = model::forward(r.model, {1, 8});
  assign_optimizers(g, r.groups, r.optimizer);
  return g;
}

std::string refusal(const CompileRequest& r, const std::vector<std::string>& frozen = {}) {
  Graph g = forward_of(r);
  if (!frozen.empty()) freeze(g, frozen);
  try {
    clip_scores(g, r);
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "was not refused";
  return "";
}

const Value& weight(const Graph& g, std::string_view name) {
  for (const Value& v : g.values)
    if (v.role == Role::kWeight && v.name == name) return v;
  ADD_FAILURE() << "no weight " << name;
  return g.values[ValueId(0)];
}

TEST(Passes, ClipScores) { testing::expect_change("clip_scores", clipped(model::Family::kLlama)); }

TEST(Passes, ClipScoresDividesLatentHeadsByPosition) {
  const CompileRequest r = clipped(model::Family::kDeepseekV3);
  Graph g = forward_of(r);
  clip_scores(g, r);
  const std::vector<ClippedRows>& q = weight(g, "layer.attn.q_up.weight").clips;
  ASSERT_EQ(q.size(), 2u);
  EXPECT_EQ(q[0], (ClippedRows{q[0].scores, 0, 6, 0.5}));
  EXPECT_EQ(q[1], (ClippedRows{q[0].scores, 6, 8, 1}));
  const std::vector<ClippedRows>& kv = weight(g, "layer.attn.kv_up.weight").clips;
  ASSERT_EQ(kv.size(), 1u);
  EXPECT_EQ(kv[0], (ClippedRows{q[0].scores, 0, 6, 0.5}));
  EXPECT_TRUE(weight(g, "layer.attn.k_rope.weight").clips.empty());
  EXPECT_TRUE(weight(g, "layer.attn.out.weight").clips.empty());
}

// All numbers of a head may be rotated.
TEST(Passes, ClipScoresOfHeadsWithoutAPlainPart) {
  CompileRequest r = clipped(model::Family::kDeepseekV3);
  r.model.latent.nope_width = 0;
  r.model.latent.value_width = 2;
  model::derive_sizes(r.model);
  Graph g = forward_of(r);
  clip_scores(g, r);
  const std::vector<ClippedRows>& q = weight(g, "layer.attn.q_up.weight").clips;
  ASSERT_EQ(q.size(), 1u);
  EXPECT_EQ(q[0], (ClippedRows{q[0].scores, 0, 2, 1}));
  EXPECT_TRUE(weight(g, "layer.attn.kv_up.weight").clips.empty());
}

// Validation measures no scores, and must divide the layers among stages as training does.
TEST(Passes, ClipScoresDoesNotChangeTheCostsOfLayers) {
  const CompileRequest r = clipped(model::Family::kLlama);
  const Graph plain = forward_of(r);
  Graph g = plain;
  clip_scores(g, r);
  const LayerCosts a = shares_of(plain.blocks, plain.values), b = shares_of(g.blocks, g.values);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.head, b.head);
}

TEST(Passes, ClipScoresNamesWhatItCannotLimit) {
  EXPECT_NE(refusal(clipped(model::Family::kQwen2)).find("adds biases"), std::string::npos);
  EXPECT_NE(refusal(clipped(model::Family::kQwen3)).find("normalizes them"), std::string::npos);
  EXPECT_NE(refusal(clipped(model::Family::kLlama), {"*.attn.*"}).find("trains no weights"),
            std::string::npos);
  CompileRequest adapted = clipped(model::Family::kLlama);
  adapted.adapters.rank = 4;
  EXPECT_NE(refusal(adapted).find("lora.rank = 4"), std::string::npos);
  CompileRequest r = clipped(model::Family::kDeepseekV3);
  OptimizerGroup group = {{"*kv_up*"}, r.optimizer};
  group.policy.qk_clip = 50;
  r.groups = {group};
  EXPECT_NE(refusal(r).find("one value of qk_clip"), std::string::npos);
}

}  // namespace
}  // namespace tessera::compile
