// Maximal update parametrization in a trainer: a model of the base width is the standard one, and
// each factor is where it belongs.
#include "compile/compile.h"
#include "compile/graph/graph_passes.h"
#include "config/layout_section.h"
#include "model/forward.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

std::vector<model::Family> families_without_encoder() {
  std::vector<model::Family> some;
  for (const model::Family f : every_family())
    if (!model::rule_of(f).has_encoder) some.push_back(f);
  return some;
}

class MupOf : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, MupOf, testing::ValuesIn(families_without_encoder()));

TEST_P(MupOf, TheBaseWidthIsTheStandardModel) {
  const config::RunConfig standard = tiny(GetParam());
  config::RunConfig c = standard;
  c.model.mup.base = c.model.hidden;
  expect_same(run(c), run(standard), 1e-6);
}

// The initial values, rates and decays of a model that is four times as wide as its base.
TEST_P(MupOf, FactorsByTheKindOfWeight) {
  config::RunConfig c = tiny(GetParam());
  c.model.mup.base = c.model.hidden / 4;
  config::RunConfig base = c;  // with the values of its width
  base.model.mup.base = 0;
  base.model.hidden = c.model.mup.base;
  base.model.heads = base.model.kv_heads = 1;
  base.model.head_width = c.model.head_size();
  const compile::CompileRequest r = config::compile_request(c, compile::ProgramKind::kTrain);
  Graph g = model::forward(c.model, 1, 8);
  const Graph narrow = model::forward(base.model, 1, 8);
  compile::assign_optimizers(g, r.groups, r.optimizer);
  int matrices = 0, others = 0;
  for (const ValueId v : g.values.ids()) {
    if (g[v].role != Role::kWeight || g[v].policy == kBalancePolicy) continue;
    const Value* at_base = nullptr;
    for (const Value& w : narrow.values)
      if (w.name == g[v].name) at_base = &w;
    ASSERT_NE(at_base, nullptr) << g[v].name;
    const compile::OptimizerPolicy policy = r.policy(g[v].policy);
    const bool in_layer = g[v].name.starts_with("layer.") && g[v].decays;
    const double factor = in_layer ? 4 : 1;
    (in_layer ? matrices : others)++;
    EXPECT_DOUBLE_EQ(policy.rate_multiplier, 1 / factor) << g[v].name;
    EXPECT_DOUBLE_EQ(policy.weight_decay, c.optimizer.weight_decay * factor) << g[v].name;
    EXPECT_NEAR(g[v].initial.std, at_base->initial.std / std::sqrt(factor), 1e-12) << g[v].name;
    EXPECT_EQ(g[v].initial.constant, at_base->initial.constant) << g[v].name;
  }
  EXPECT_GE(matrices, 4);
  EXPECT_GE(others, 3);
}

TEST(Mup, ScalesTheReadoutAndScores) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.model.mup.base = c.model.hidden / 4;
  EXPECT_DOUBLE_EQ(model::attention_scale(c.model), 1 / std::sqrt(8.0));  // heads of 8
  c.model.mup.base_head_width = 2;
  EXPECT_DOUBLE_EQ(model::attention_scale(c.model), std::sqrt(2.0) / 8);
  const Graph g = model::forward(c.model, 1, 8);
  int scales = 0;
  for (const Block& b : g.blocks)
    for (const Op& op : b.forward)
      if (op.is<Scale>()) {
        ++scales;
        EXPECT_TRUE(b.loss);
        EXPECT_DOUBLE_EQ(op.as<Scale>().factor, 0.25);
      }
  EXPECT_EQ(scales, 1);
}

// Muon with the spectral scale grows with the root of the width; with the scale of the shape it
// does not grow. AdamW has the other weights.
TEST(Mup, MuonsRates) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.model.mup.base = c.model.hidden / 4;
  c.optimizer.kind = OptimizerKind::kMuon;
  for (const UpdateScale scale : {UpdateScale::kSpectral, UpdateScale::kShape}) {
    c.optimizer.update_scale = scale;
    const compile::CompileRequest r = config::compile_request(c, compile::ProgramKind::kTrain);
    const double expected = scale == UpdateScale::kSpectral ? 0.5 : 1;
    EXPECT_DOUBLE_EQ(r.groups.at(0).policy.rate_multiplier, expected);
    EXPECT_DOUBLE_EQ(r.optimizer.rate_multiplier, 1);
    // A router is a matrix of a layer that AdamW updates.
    const compile::OptimizerPolicy router = r.policy(adamw_of(1));
    EXPECT_EQ(router.kind, OptimizerKind::kAdamW);
    EXPECT_DOUBLE_EQ(router.rate_multiplier, 0.25);
    EXPECT_DOUBLE_EQ(router.weight_decay, 4 * c.optimizer.weight_decay);
  }
}

// Gemma's factor of the embedding is the root of the width.
TEST(Mup, TheFactorOfTheEmbeddingIsThatOfTheBase) {
  config::RunConfig c = tiny(model::Family::kGemma2);
  c.model.mup.base = c.model.hidden / 4;
  const Graph g = model::forward(c.model, 1, 8);
  std::vector<double> factors;
  for (const Block& b : g.blocks)
    for (const Op& op : b.forward)
      if (op.is<Scale>() && !b.loss) factors.push_back(op.as<Scale>().factor);
  ASSERT_EQ(factors.size(), 1u);
  EXPECT_DOUBLE_EQ(factors[0], std::sqrt(static_cast<double>(c.model.mup.base)));
}

TEST(Mup, RejectsOptimizersWithoutRules) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdafactor}) {
    config::RunConfig c = tiny(model::Family::kLlama);
    c.model.mup.base = 16;
    c.optimizer.kind = kind;
    KeyErrors errors;
    config::check_policies(c, errors);
    bool named = false;
    for (const KeyError& e : errors.list()) named = named || e.path == "model.mup.base";
    EXPECT_TRUE(named) << name_of_entry(kind);
  }
}

}  // namespace
}  // namespace tessera::train
