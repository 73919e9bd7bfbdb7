// The loss of a step divided among groups of its samples.
#include "train/source_losses.h"

#include <numeric>

#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

struct Divided {
  std::vector<ValidationResult> by_sample, by_group;
  StepResult step;
};

constexpr int kGroups = 3;

// Group 2 has one sample, and groups are not in order.
std::vector<int> groups_of(int64_t samples) {
  std::vector<int> groups(samples);
  for (size_t s = 0; s < groups.size(); ++s) groups[s] = s == 3 ? 2 : static_cast<int>((s + 1) % 2);
  return groups;
}

Divided divide(const config::RunConfig& c) {
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialize();
  data::BatchSource source = batches(c);
  std::vector<int> each(c.batch.global);
  std::iota(each.begin(), each.end(), 0);
  Divided out;
  trainer.prepare_step(1, 1e-3, source);
  out.by_sample = trainer.losses_by_group(each, static_cast<int>(c.batch.global));
  out.by_group = trainer.losses_by_group(groups_of(c.batch.global), kGroups);
  out.step = trainer.run_step();
  return out;
}

class SourceLossesOf : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, SourceLossesOf, testing::ValuesIn(every_family()));

TEST_P(SourceLossesOf, AddUpToTheLossOfTheStep) {
  config::RunConfig c = tiny(GetParam());
  c.batch.global = 6;
  const Divided d = divide(c);
  ValidationResult all;
  for (int g = 0; g < kGroups; ++g) {
    double loss = 0, tokens = 0;
    for (int64_t s = 0; s < c.batch.global; ++s) {
      if (groups_of(c.batch.global)[s] != g) continue;
      loss += d.by_sample[s].loss_sum;
      tokens += d.by_sample[s].tokens;
    }
    EXPECT_EQ(d.by_group[g].tokens, tokens);
    EXPECT_NEAR(d.by_group[g].loss_sum, loss, 1e-6 * loss);
    all.loss_sum += loss;
    all.tokens += tokens;
  }
  EXPECT_EQ(d.step.tokens, all.tokens);
  EXPECT_NEAR(d.step.loss, all.loss(), 1e-6 * all.loss());
  EXPECT_EQ(d.step.loss, run(c, 1).losses[0]);  // the measurement changes no bit of the step
  EXPECT_EQ(d.step.grad_norm, run(c, 1).norms[0]);
}

TEST(SourceNames, AreTheLastPartsOfPrefixes) {
  EXPECT_EQ(source_names({"data/wiki", "data/code"}), (std::vector<std::string>{"wiki", "code"}));
  EXPECT_EQ(source_names({"a/train", "b/train", "c/code"}),
            (std::vector<std::string>{"a/train", "b/train", "code"}));
}

}  // namespace
}  // namespace tessera::train
