// The loss of a step divided among groups of its samples, in layouts of four ranks.
#include <gtest/gtest.h>

#include "config/run_request.h"
#include "model/presets.h"
#include "tests/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/trainer.h"

namespace tessera::testing {
namespace {

constexpr int kGroups = 3;

config::RunConfig config_of(compile::Layout layout) {
  config::RunConfig c;
  model::apply_family(model::Family::kLlama, c.model);
  c.model.layers = 4;
  c.model.hidden = 32;
  c.model.heads = 4;
  c.model.vocabulary = 96;
  c.model.vocabulary_multiple = 32;
  c.model.context = 24;
  model::derive_sizes(c.model);
  c.data.sequence_length = 24;
  c.layout = std::move(layout);
  c.batch.micro = 2;
  c.batch.global = 16;
  c.precision = compile::Precision::kFp32;
  return c;
}

// The second step, and the losses of its groups: {loss of the step, loss and tokens per group}.
std::vector<double> figures_of(const config::RunConfig& c) {
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, ranks(), {});
  trainer.initialize();
  data::BatchSource source = train::batches(c, trainer.data_rank());
  std::vector<int> groups(c.batch.global);
  for (size_t s = 0; s < groups.size(); ++s) groups[s] = s < 9 ? 0 : s == 12 ? 2 : 1;
  trainer.step(1, 1e-2, source);
  trainer.prepare_step(2, 1e-2, source);
  const std::vector<train::ValidationResult> losses = trainer.losses_by_group(groups, kGroups);
  std::vector<double> out = {trainer.run_step().loss};
  for (const train::ValidationResult& l : losses) {
    out.push_back(l.loss());
    out.push_back(l.tokens);
  }
  return out;
}

TEST(SourceLosses, AreTheSameInEveryLayout) {
  std::vector<double> expected;
  for (const auto& [data, context, tensor, pipeline, zero] :
       {std::array{4, 1, 1, 1, 1}, std::array{2, 1, 2, 1, 0}, std::array{2, 1, 1, 2, 1},
        std::array{1, 1, 2, 2, 1}, std::array{2, 2, 1, 1, 3}, std::array{1, 1, 1, 4, 1}}) {
    compile::Layout layout;
    layout.data = data;
    layout.context = context;
    layout.tensor = tensor;
    layout.pipeline = pipeline;
    layout.zero = zero;
    const std::vector<double> found = figures_of(config_of(layout));
    if (expected.empty()) expected = found;
    double sum = 0, tokens = 0;
    for (int g = 0; g < kGroups; ++g) {
      sum += found[1 + 2 * g] * found[2 + 2 * g];
      tokens += found[2 + 2 * g];
    }
    EXPECT_NEAR(found[0], sum / tokens, 1e-6 * found[0]);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 2e-6 * expected[i]);
  }
}

}  // namespace
}  // namespace tessera::testing
