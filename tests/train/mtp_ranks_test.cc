// Multi-token prediction on four ranks equals one rank, value by value.
#include <gtest/gtest.h>

#include "model/family.h"
#include "model/presets.h"
#include "tests/train/verified_run.h"

namespace tessera::testing {
namespace {

config::RunConfig model_of(model::Family family, bool tied) {
  config::RunConfig c;
  model::apply_family(family, c.model);
  c.model.layers = 3;
  c.model.hidden = 32;
  c.model.heads = 4;
  c.model.vocabulary = 96;
  c.model.vocabulary_multiple = 32;
  c.model.context = 16;
  c.model.tied_embeddings = tied;
  c.model.mtp_depth = 2;
  if (c.model.latent.exists())
    c.model.latent = {
        .query_rank = 12, .key_value_rank = 16, .nope_width = 4, .rope_width = 4, .value_width = 6};
  if (model::rule_of(family).has_experts) {
    c.model.experts = 4;
    c.model.experts_per_token = 2;
    c.model.expert_feed_forward = 24;
    c.model.shared_feed_forward = 24;
    c.model.dense_layers = {0};
    c.model.router.balance_loss = 0.01;
  }
  model::derive_sizes(c.model);
  c.loss.mtp_weight = 0.5;
  c.precision = compile::Precision::kFp32;
  c.data.sequence_length = 16;
  c.batch.micro = 1;
  c.optimizer.epsilon = 1e-4;
  c.run.seed = 5;
  return c;
}

void expect_equal(config::RunConfig c, const compile::Layout& layout, const char* name) {
  c.layout = layout;
  c.batch.global = 3 * c.batch.micro * layout.data;
  if (compile::mesh_of(layout).ranks() != ranks().size()) return;
  const std::vector<train::RankRecords> all = on_all_ranks(c, stages_of(c));
  if (ranks().rank() != 0) return;
  const train::ValueComparison found = train::compare_values(
      on_one_rank(c), all,
      train::value_bounds(config::compile_request(c, compile::ProgramKind::kTrain)));
  EXPECT_GT(found.compared, 50) << name;
  if (found.first)
    ADD_FAILURE() << name << ": " << found.first->told << " " << found.first->relative << " "
                  << found.first->ranks;
}

TEST(Mtp, LayoutsEqualOneRank) {
  compile::Layout layout;
  layout.data = layout.tensor = layout.zero = 2;
  expect_equal(model_of(model::Family::kDeepseekV3, false), layout, "deepseek_v3");
  expect_equal(model_of(model::Family::kLlama, true), layout, "llama");
}

}  // namespace
}  // namespace tessera::testing
