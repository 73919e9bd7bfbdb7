// Training steps of a mixture of experts: all tokens to one expert, and biases that follow the
// load.
#include <cstring>

#include "compile/compile.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

// Trains with routers of zeros: all scores are equal, so the first experts get all tokens.
class ZeroRouters {
 public:
  explicit ZeroRouters(const config::RunConfig& c)
      : source_(batches(c)),
        world_(comm::self_world()),
        trainer_(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                 *world_, {}) {
    trainer_.initialize();
    for (const checkpoint::StateTensor& t : trainer_.state())
      if (t.name.ends_with("router.weight"))
        std::memset(t.data.data, 0, static_cast<size_t>(t.data.bytes()));
  }

  StepResult step(int64_t number, double rate) { return trainer_.step(number, rate, source_); }

  std::vector<float> biases(int64_t layer) {
    const std::string name = fmt::format("layer{}.mlp.router.bias", layer);
    for (const checkpoint::StateTensor& t : trainer_.state()) {
      if (t.name != name) continue;
      EXPECT_EQ(t.dtype, DType::kF32);
      return {t.data.f32(), t.data.f32() + t.data.elements()};
    }
    ADD_FAILURE() << "there is no " << name;
    return {};
  }

 private:
  data::BatchSource source_;
  std::unique_ptr<comm::World> world_;
  Trainer trainer_;
};

config::RunConfig of_experts(int64_t chosen) {
  config::RunConfig c = tiny(model::Family::kMixtral);
  c.model.experts_per_token = chosen;
  return c;
}

// Buffers do not depend on the choice, and without a capacity no token is dropped.
TEST(Experts, AllTokensToOneExpertTrain) {
  config::RunConfig c = of_experts(1);
  c.model.router.balance_loss = 0.1;
  ZeroRouters run(c);
  const StepResult first = run.step(1, 1e-3);
  ASSERT_TRUE(first.finite && first.router);
  EXPECT_DOUBLE_EQ(first.router->busiest, 8);  // one of 8 experts has all tokens
  EXPECT_DOUBLE_EQ(first.router->entropy, 0);
  // Scores are 1/8 each: E · Σ n/N · P = 1 in each of two layers.
  EXPECT_NEAR(first.router->loss, 2 * 0.1, 1e-6);
  const StepResult second = run.step(2, 1e-3);
  EXPECT_TRUE(second.finite);
  EXPECT_LT(second.loss, first.loss);
}

// C = ceil(tokens · experts_per_token / experts · factor) of 24 tokens, 8 experts and one expert
// per token, which has them all.
TEST(Experts, TheCapacityIsThatOfASequence) {
  struct Known {
    double factor;
    int64_t capacity;
  };
  for (const Known k :
       {Known{1, 3}, {1.25, 4}, {4.0 / 3, 4}, {0.5, 2}, {1e-6, 1}, {7.9, 24}, {1e6, 24}}) {
    config::RunConfig c = of_experts(1);
    c.model.router.capacity_factor = k.factor;
    const StepResult r = ZeroRouters(c).step(1, 1e-3);
    ASSERT_TRUE(r.finite && r.router && r.router->dropped);
    EXPECT_NEAR(*r.router->dropped, 1 - static_cast<double>(k.capacity) / 24, 1e-12) << k.factor;
    EXPECT_DOUBLE_EQ(r.router->busiest, 8);  // before pairs are dropped
  }
  EXPECT_FALSE(ZeroRouters(of_experts(1)).step(1, 0).router->dropped);
}

TEST(Experts, ACapacityOfAllTokensChangesNoBit) {
  config::RunConfig c = of_experts(2);
  c.model.router.balance_loss = 0.1;
  const Curve dropless = run(c, 3);
  c.model.router.capacity_factor = 4;  // experts / experts_per_token
  const Curve same = run(c, 3);
  EXPECT_EQ(same.losses, dropless.losses);
  EXPECT_EQ(same.norms, dropless.norms);
  c.model.router.capacity_factor = 0.5;
  EXPECT_NE(run(c, 3).losses, dropless.losses);
}

// Dropping is per sequence, and does not depend on how pairs are saved or recomputed.
TEST(Experts, DroppingDoesNotDependOnMicrobatchesOrRecomputation) {
  config::RunConfig c = of_experts(2);
  c.model.router.balance_loss = 0.1;
  c.model.router.capacity_factor = 0.75;
  const Curve expected = run(c, 3);
  for (const char* recompute : {"selective", "full"})
    for (const compile::FullRecompute again :
         {compile::FullRecompute::kNeeded, compile::FullRecompute::kAll}) {
      c.layout.recompute = recompute;
      c.compiler.full_recompute = again;
      const Curve again_run = run(c, 3);
      EXPECT_EQ(again_run.losses, expected.losses) << recompute;
      EXPECT_EQ(again_run.norms, expected.norms) << recompute;
    }
  c.layout.recompute = "none";
  for (const int64_t micro : {1, 4}) {
    c.batch.micro = micro;
    const Curve other = run(c, 3);
    for (size_t i = 0; i < other.losses.size(); ++i) {
      EXPECT_NEAR(other.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << micro;
      EXPECT_NEAR(other.norms[i], expected.norms[i], 1e-4 * expected.norms[i]) << micro;
    }
  }
}

TEST(Experts, RecomputationReportsLossesOfRoutersOnce) {
  config::RunConfig c = of_experts(1);
  c.model.router.balance_loss = 0.1;
  c.layout.recompute = "full";
  for (const compile::FullRecompute again :
       {compile::FullRecompute::kNeeded, compile::FullRecompute::kAll}) {
    c.compiler.full_recompute = again;
    const StepResult r = ZeroRouters(c).step(1, 0);
    ASSERT_TRUE(r.router);
    EXPECT_DOUBLE_EQ(r.router->busiest, 8);
    EXPECT_NEAR(r.router->loss, 2 * 0.1, 1e-6);
  }
}

TEST(Experts, AModelWithoutExpertsHasNoFiguresOfRouters) {
  ZeroRouters run(tiny(model::Family::kLlama));
  EXPECT_FALSE(run.step(1, 1e-3).router);
}

// b −= rate · sign(load − mean), and the update does not depend on the learning rate. Two
// micro-batches of two sequences: the load is that of the whole batch.
TEST(Experts, BiasesFollowTheLoad) {
  config::RunConfig c = of_experts(1);
  c.model.router.bias = true;
  c.model.router.bias_rate = 0.25;
  ZeroRouters run(c);
  EXPECT_EQ(run.biases(0), std::vector<float>(8, 0));
  run.step(1, 0);  // all tokens to expert 0
  std::vector<float> expected(8, 0.25f);
  expected[0] = -0.25f;
  for (const int64_t layer : {0, 1}) EXPECT_EQ(run.biases(layer), expected) << layer;
  run.step(2, 0);  // all tokens to expert 1, the first of the others
  for (float& b : expected) b += 0.25f;
  expected[1] = 0;
  EXPECT_EQ(run.biases(1), expected);
}

// Biases are f32 in every precision, so that steps of any size change them.
TEST(Experts, BiasesAreF32) {
  config::RunConfig c = of_experts(2);
  c.precision = compile::Precision::kBf16;
  c.model.router.bias = true;
  ZeroRouters run(c);
  EXPECT_TRUE(run.step(1, 1e-3).finite);
  for (const float b : run.biases(1)) EXPECT_TRUE(b == 0 || std::abs(b) == 1e-3f) << b;
}

// The gradient norm does not include the biases.
TEST(Experts, TheGradientNormIsWithoutBiases) {
  config::RunConfig c = of_experts(2);
  const Curve without = run(c, 1);
  c.model.router.bias = true;
  const Curve with = run(c, 1);
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.norms, without.norms);
}

}  // namespace
}  // namespace tessera::train
