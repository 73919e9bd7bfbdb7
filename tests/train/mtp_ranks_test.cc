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

void expect_equal(config::RunConfig c, const compile::Layout& layout, const std::string& name) {
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

// The modules are on the last stage, and the embedding on the first, too.
TEST(Mtp, PipelinesEqualOneRank) {
  compile::Layout layout;
  layout.pipeline = layout.data = 2;
  layout.pipeline_schedule = compile::PipelineSchedule::kZeroBubble;
  expect_equal(model_of(model::Family::kLlama, false), layout, "llama, zero bubble");
  layout.pipeline_schedule = compile::PipelineSchedule::kInterleaved1F1B;
  layout.interleave = 2;
  layout.zero = 1;
  expect_equal(model_of(model::Family::kLlama, true), layout, "llama, interleaved");
  layout = {};
  layout.pipeline = layout.tensor = 2;
  expect_equal(model_of(model::Family::kDeepseekV3, false), layout, "deepseek_v3 over tensor");
  layout.pipeline = 4;
  layout.tensor = 1;
  expect_equal(model_of(model::Family::kDeepseekV3, true), layout, "deepseek_v3 on four stages");
}

TEST(Mtp, DividedSequencesEqualOneRank) {
  compile::Layout layout;
  layout.context = layout.tensor = 2;
  for (const compile::ContextMethod method : Enumerators<compile::ContextMethod>()) {
    layout.context_method = method;
    expect_equal(model_of(model::Family::kLlama, false), layout, name_of_entry(method));
  }
  layout.context_method = compile::ContextMethod::kGather;
  layout.context_balance = true;
  layout.tensor = 1;
  layout.data = layout.zero = 2;
  expect_equal(model_of(model::Family::kDeepseekV3, true), layout, "balanced");
}

TEST(Mtp, DividedExpertsEqualOneRank) {
  compile::Layout layout;
  layout.data = 4;
  layout.expert = 2;
  layout.zero = 1;
  expect_equal(model_of(model::Family::kDeepseekV3, false), layout, "expert 2 of data 4");
  layout.data = layout.pipeline = 2;
  expect_equal(model_of(model::Family::kDeepseekV3, false), layout, "expert 2, pipeline 2");
}

}  // namespace
}  // namespace tessera::testing
