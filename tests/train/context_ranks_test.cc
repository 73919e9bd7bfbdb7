// Steps of training whose sequences are divided among context-parallel ranks, in every way and
// together with other axes, against the same steps on data-parallel ranks alone.
#include <gtest/gtest.h>

#include "config/run_request.h"
#include "model/presets.h"
#include "tests/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/trainer.h"

namespace tessera::testing {
namespace {

constexpr int64_t kTokens = 32;

config::RunConfig config_of(model::Family family, compile::Layout layout) {
  config::RunConfig c;
  model::apply_family(family, c.model);
  c.model.layers = 2;
  c.model.hidden = 64;
  c.model.heads = 8;
  c.model.kv_heads = 2;
  c.model.vocabulary = 96;
  c.model.vocabulary_multiple = 32;
  c.model.context = kTokens;
  c.model.window = 11;
  c.model.dropout = c.model.attention_dropout = 0.1;
  model::derive_sizes(c.model);
  c.data.sequence_length = kTokens;
  c.data.intra_document_masking = true;
  c.layout = std::move(layout);
  c.batch.micro = 1;
  c.batch.global = 4;
  c.precision = compile::Precision::kFp32;
  c.optimizer.epsilon = 1e-4;
  return c;
}

// The losses and gradient norms of three steps.
std::vector<double> figures_of(const config::RunConfig& c) {
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, ranks(), {});
  trainer.initialize();
  data::BatchSource source = train::batches(c, trainer.data_rank());
  std::vector<double> figures;
  for (int64_t step = 1; step <= 3; ++step) {
    const train::StepResult r = trainer.step(step, 1e-3, source);
    figures.push_back(r.loss);
    figures.push_back(r.grad_norm);
  }
  return figures;
}

struct Way {
  int64_t data, context, tensor, pipeline, zero;
  compile::ContextMethod method;
  bool balance;
};
constexpr auto kGather = compile::ContextMethod::kGather, kHeads = compile::ContextMethod::kHeads,
               kRing = compile::ContextMethod::kRing;
constexpr Way kWays[] = {
    {1, 4, 1, 1, 1, kGather, false}, {1, 4, 1, 1, 2, kGather, true}, {1, 4, 1, 1, 3, kHeads, false},
    {1, 2, 2, 1, 1, kGather, true},  {1, 2, 2, 1, 1, kHeads, false}, {2, 2, 1, 1, 3, kGather, true},
    {2, 2, 1, 1, 1, kHeads, false},  {1, 2, 1, 2, 0, kGather, true}, {1, 2, 1, 2, 2, kHeads, false},
    {1, 4, 1, 1, 1, kRing, false},   {1, 4, 1, 1, 2, kRing, true},   {1, 2, 2, 1, 1, kRing, true},
    {2, 2, 1, 1, 3, kRing, true},    {1, 2, 1, 2, 0, kRing, true},   {1, 2, 1, 2, 2, kRing, false},
};

class ContextRanks : public ::testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, ContextRanks,
                         ::testing::Values(model::Family::kLlama, model::Family::kGptOss),
                         [](const auto& f) { return name_of_entry(f.param); });

TEST_P(ContextRanks, TrainTheSameInEveryLayout) {
  compile::Layout alone;
  alone.data = 4;
  const std::vector<double> expected = figures_of(config_of(GetParam(), alone));
  for (const Way& w : kWays) {
    compile::Layout layout;
    layout.data = w.data;
    layout.context = w.context;
    layout.tensor = w.tensor;
    layout.pipeline = w.pipeline;
    layout.zero = w.zero;
    layout.context_method = w.method;
    layout.context_balance = w.balance;
    const std::vector<double> found = figures_of(config_of(GetParam(), layout));
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], (i % 2 == 0 ? 1e-5 : 1e-4) * expected[i])
          << "context " << w.context << ", tensor " << w.tensor << ", pipeline " << w.pipeline
          << ", " << name_of_entry(w.method) << (w.balance ? ", balanced" : "") << ", figure " << i;
  }
}

}  // namespace
}  // namespace tessera::testing
