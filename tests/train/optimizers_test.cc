// Optimizers, precisions and adapters in whole runs on one rank.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "tests/train/tiny_run.h"
#include "train/loss_scale.h"
#include "train/run_programs.h"
#include "train/trainer.h"

namespace tessera::train {
namespace {

config::RunConfig tiny_with(OptimizerKind kind, model::Family family = model::Family::kLlama) {
  config::RunConfig c = tiny(family);
  c.optimizer = config::optimizer_defaults(kind);
  // No weight is moved by what is but a rounding of its gradient, which sums in another order have.
  if (kind == OptimizerKind::kAdafactor) c.optimizer.epsilon = 1e-10;
  if (kind == OptimizerKind::kAdamW || kind == OptimizerKind::kScheduleFree)
    c.optimizer.epsilon = 1e-5;
  return c;
}

std::unique_ptr<Trainer> trainer_of(const config::RunConfig& c, comm::World& world) {
  return std::make_unique<Trainer>(
      c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX, world,
      std::function<double()>());
}

std::map<std::string, std::vector<std::byte>> bytes_of(Trainer& t) {
  std::map<std::string, std::vector<std::byte>> all;
  for (const checkpoint::StateTensor& s : t.state()) {
    std::vector<std::byte>& b = all[s.name];
    b.resize(static_cast<size_t>(s.data.bytes()));
    std::memcpy(b.data(), s.data.data, b.size());
  }
  return all;
}

class EveryOptimizer : public testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Trainer, EveryOptimizer, testing::ValuesIn([] {
                           std::vector<OptimizerKind> kinds;
                           for (const OptimizerTraits& o : kOptimizers) kinds.push_back(o.kind);
                           return kinds;
                         }()));

TEST_P(EveryOptimizer, LowersTheLossAndAddsUpMicrobatches) {
  config::RunConfig c = tiny_with(GetParam());
  const Curve two = run(c, 8);
  EXPECT_LT(two.losses.back(), two.losses.front());
  c.batch.micro = 1;
  expect_same(two, run(c, 8), 1e-5);
}

// Nothing of the state is lost where it is all in bf16: the run is near, and 8 steps go down.
TEST_P(EveryOptimizer, TrainsInEveryPrecision) {
  const Curve exact = run(tiny_with(GetParam()), 6);
  for (const compile::Precision p :
       {compile::Precision::kBf16, compile::Precision::kBf16Sr, compile::Precision::kFp16}) {
    config::RunConfig c = tiny_with(GetParam());
    c.precision = p;
    const Curve rounded = run(c, 6);
    for (size_t i = 0; i < exact.losses.size(); ++i)
      EXPECT_NEAR(rounded.losses[i], exact.losses[i], 5e-3 * exact.losses[i])
          << name_of_entry(p) << " step " << i + 1;
  }
}

// Bytes a parameter, of these parts of a run's memory. Members of a buffer begin at multiples of 64
// elements, so there is a little more than the sizes of the types.
void expect_bytes(double bytes, const config::RunConfig& c,
                  int64_t (*part)(const compile::MemoryPlan&)) {
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  double parameters = 0;
  for (const checkpoint::StateTensor& t : trainer->state())
    if (t.name.find('|') == std::string::npos) parameters += static_cast<double>(t.data.elements());
  const double found =
      static_cast<double>(part(compile::memory_plan(trainer->program()))) / parameters;
  EXPECT_GE(found, bytes) << name_of_entry(c.precision);
  EXPECT_LT(found, bytes * 1.02) << name_of_entry(c.precision);
}

// What a run keeps: AdamW's two moments beside weight and master.
TEST(Precisions, KeepAsManyBytesAsTheTableSays) {
  const auto expect = [](double bytes, compile::Precision p,
                         config::MomentType moments = config::MomentType::kAuto) {
    config::RunConfig c = tiny(model::Family::kLlama);
    c.precision = p;
    c.optimizer.moment_dtype = moments;
    expect_bytes(bytes, c, [](const compile::MemoryPlan& m) { return m.weights + m.optimizer; });
  };
  expect(12, compile::Precision::kFp32);
  expect(14, compile::Precision::kBf16);
  expect(10, compile::Precision::kBf16, config::MomentType::kBf16);
  expect(6, compile::Precision::kBf16Sr);
  expect(10, compile::Precision::kBf16Sr, config::MomentType::kFp32);
  expect(14, compile::Precision::kFp16);
  // Moments in 8 bits have a scale of 4 bytes per 64.
  expect(6.125, compile::Precision::kFp32, config::MomentType::k8Bit);
  expect(8.125, compile::Precision::kBf16, config::MomentType::k8Bit);
  expect(4.125, compile::Precision::kBf16Sr, config::MomentType::k8Bit);
}

// With sums of gradients in 16 bits a step adds 2 bytes: 16 of fp16 in all, 8 of bf16_sr.
TEST(Precisions, HalfGradientsTakeTwoBytes) {
  for (const auto& [p, bytes] : {std::pair{compile::Precision::kFp16, 16.0},
                                 {compile::Precision::kBf16, 16.0},
                                 {compile::Precision::kBf16Sr, 8.0}}) {
    config::RunConfig c = tiny(model::Family::kLlama);
    c.precision = p;
    c.compiler.grad_accum_dtype = compile::GradAccumDType::kWeight;
    expect_bytes(bytes, c, [](const compile::MemoryPlan& m) {
      return m.weights + m.optimizer + m.gradients;
    });
  }
}

// Beside sums in f32: the same run but for their rounding, in every optimizer.
TEST_P(EveryOptimizer, TrainsWithHalfGradients) {
  for (const compile::Precision p :
       {compile::Precision::kBf16, compile::Precision::kBf16Sr, compile::Precision::kFp16}) {
    config::RunConfig c = tiny_with(GetParam());
    c.precision = p;
    c.batch.micro = 1;
    const Curve exact = run(c, 6);
    c.compiler.grad_accum_dtype = compile::GradAccumDType::kWeight;
    const Curve rounded = run(c, 6);
    c.compiler.fuse_grad_accumulation = false;
    const Curve apart = run(c, 6);
    EXPECT_NE(exact.norms, rounded.norms) << name_of_entry(p);
    for (size_t i = 0; i < exact.losses.size(); ++i)
      for (const Curve* curve : {&rounded, &apart}) {
        EXPECT_NEAR(curve->losses[i], exact.losses[i], 3e-3 * exact.losses[i])
            << name_of_entry(p) << " step " << i + 1;
        EXPECT_NEAR(curve->norms[i], exact.norms[i], 2e-2 * exact.norms[i])
            << name_of_entry(p) << " step " << i + 1;
      }
  }
}

// The same seed rounds alike, another otherwise.
TEST(Bf16Sr, DrawsByTheSeed) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.precision = compile::Precision::kBf16Sr;
  const auto world = comm::self_world();
  const auto trained = [&] {
    const auto trainer = trainer_of(c, *world);
    trainer->engine().initialize(5);
    data::BatchSource source = batches(c);
    for (int s = 1; s <= 3; ++s) trainer->step(s, 1e-3, source);
    return bytes_of(*trainer);
  };
  const auto first = trained();
  EXPECT_TRUE(first == trained());
  c.run.seed = 6;  // of the roundings alone: weights and data are the same
  EXPECT_FALSE(first == trained());
}

TEST(Fp16, AnOverflowIsSkippedAndMended) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.precision = compile::Precision::kFp16;
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  trainer->initialize();
  data::BatchSource source = batches(c);
  const auto before = bytes_of(*trainer);
  const StepResult over = trainer->step(1, 1e-3, source, {}, 0x1p24);
  EXPECT_FALSE(over.finite);
  EXPECT_TRUE(std::isfinite(over.loss));
  EXPECT_TRUE(bytes_of(*trainer) == before);
  // The norm is that of the gradient without its scale.
  const StepResult small = trainer->step(1, 0, source, {}, 256);
  const StepResult large = trainer->step(1, 0, source, {}, 1024);
  ASSERT_TRUE(small.finite && large.finite);
  EXPECT_NEAR(small.grad_norm, large.grad_norm, 1e-2 * small.grad_norm);
  EXPECT_TRUE(trainer->step(1, 1e-3, source, {}, 1024).finite);
  EXPECT_FALSE(bytes_of(*trainer) == before);
}

// After steps that were skipped the first update is the first: PyTorch's and Apex's t, Megatron's
// schedule. Its largest change is the learning rate, as Adam's first update is.
TEST(Fp16, F4_SkippedStepsAreNoUpdates) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdafactor}) {
    config::RunConfig c = tiny_with(kind);
    c.precision = compile::Precision::kFp16;
    c.optimizer.weight_decay = 0;
    const auto world = comm::self_world();
    const auto skipping = trainer_of(c, *world), plain = trainer_of(c, *world);
    data::BatchSource source = batches(c), again = batches(c);
    skipping->initialize();
    plain->initialize();
    const auto before = bytes_of(*plain);
    for (int s = 1; s <= 10; ++s) EXPECT_FALSE(skipping->step(s, 1e-3, source, {}, 0x1p24).finite);
    EXPECT_EQ(skipping->updates(), 0);
    EXPECT_EQ(skipping->next_update(), 1);
    ASSERT_TRUE(skipping->step(11, 1e-3, source, {}, 64).finite);
    ASSERT_TRUE(plain->step(11, 1e-3, again, {}, 64).finite);
    EXPECT_EQ(skipping->updates(), 1);
    const auto after = bytes_of(*skipping);
    EXPECT_TRUE(after == bytes_of(*plain)) << name_of_entry(kind);
    if (kind != OptimizerKind::kAdamW) continue;
    float largest = 0;
    for (const auto& [name, bytes] : after) {
      if (name.find('|') != name.npos) continue;
      for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
        float x = 0, y = 0;
        std::memcpy(&x, before.at(name).data() + i, sizeof(x));
        std::memcpy(&y, bytes.data() + i, sizeof(y));
        largest = std::max(largest, std::abs(x - y));
      }
    }
    EXPECT_NEAR(largest, 1e-3, 2e-5);
  }
}

TEST(Fp16, F4_CheckpointsCountUpdates) {
  checkpoint::CheckpointHeader header;
  header.step = 30;
  EXPECT_EQ(updates_before(header), 30);
  header.state = Tree::object();
  EXPECT_EQ(updates_before(header), 30);
  header.state.set("skipped", Tree(int64_t{4}));  // of a version that stored no updates
  EXPECT_EQ(updates_before(header), 26);
  save_updates(22, header.state);
  EXPECT_EQ(updates_before(header), 22);
}

TEST(Fp16, AnEncoderAndADecoderTrainAsInF32) {
  config::RunConfig c = tiny(model::Family::kT5);
  const Curve plain = run(c, 5);
  c.precision = compile::Precision::kFp16;
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  trainer->initialize();
  data::BatchSource source = batches(c);
  for (size_t s = 0; s < 5; ++s) {
    const StepResult r = trainer->step(static_cast<int64_t>(s) + 1, 1e-3, source, {}, 256);
    ASSERT_TRUE(r.finite);
    EXPECT_NEAR(r.loss, plain.losses[s], 5e-3 * plain.losses[s]);
    EXPECT_NEAR(r.grad_norm, plain.norms[s], 2e-2 * plain.norms[s]);
  }
}

TEST(LossScale, HalvesAfterOverflowsAndDoublesAfterAWindow) {
  config::LossScaleSection rule;
  rule.initial = 64;
  rule.window = 3;
  rule.hysteresis = 2;
  LossScale s(rule);
  EXPECT_TRUE(s.update(false));  // patience
  EXPECT_EQ(s.scale(), 64);
  EXPECT_TRUE(s.update(false));
  EXPECT_EQ(s.scale(), 32);
  EXPECT_TRUE(s.update(false));  // no patience is left before a window has passed
  EXPECT_EQ(s.scale(), 16);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(s.update(true));
  EXPECT_EQ(s.scale(), 32);
  EXPECT_EQ(s.skipped(), 3);
  LossScale again(rule);
  again.restore(s.state());
  EXPECT_EQ(again.scale(), 32);
  EXPECT_EQ(again.skipped(), 3);
  EXPECT_TRUE(again.update(false));
  EXPECT_EQ(again.scale(), 32);  // the patience of the one that was saved
  again.restore(Tree());
  EXPECT_EQ(again.scale(), 32);
}

TEST(LossScale, EndsAtTheLeastScale) {
  config::LossScaleSection rule;
  rule.initial = 2;
  rule.min = 1;
  rule.hysteresis = 1;
  LossScale s(rule);
  EXPECT_TRUE(s.update(false));
  EXPECT_EQ(s.scale(), 1);
  EXPECT_FALSE(s.update(false));
}

// Two sequences in the first step, then four: the first is that of a run of twos, and all of them
// see the samples behind one another.
TEST(BatchRamp, StepsAreThoseOfTheirBatch) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.batch.warmup_sizes = {2};
  c.batch.warmup_steps_per_size = 1;
  const Curve grown = run(c, 3);
  c.batch.warmup_sizes.clear();
  c.batch.warmup_steps_per_size = 0;
  const Curve fours = run(c, 1);
  c.batch.global = 2;
  const Curve twos = run(c, 2);
  EXPECT_EQ(grown.losses[0], twos.losses[0]);
  EXPECT_EQ(grown.norms[0], twos.norms[0]);
  EXPECT_NE(grown.losses[1], twos.losses[1]);
  EXPECT_NE(grown.losses[0], fours.losses[0]);
}

// Of every program that changes weights: else a save that is under way would read some of each
// step.
TEST(BatchRamp, AnUpdateWaitsForWhoReads) {
  config::RunConfig c = tiny(model::Family::kGpt2);
  c.batch.warmup_sizes = {2};
  c.batch.warmup_steps_per_size = 1;
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  trainer->initialize();
  int waits = 0;
  trainer->engine().hooks().before_update = [&] { ++waits; };
  data::BatchSource source = batches(c);
  trainer->step(1, 1e-3, source);
  const int on_the_ramp = waits;
  trainer->step(2, 1e-3, source);
  EXPECT_GT(on_the_ramp, 0);
  EXPECT_EQ(waits, 2 * on_the_ramp);
}

class EveryFamilyTuned : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Trainer, EveryFamilyTuned, testing::ValuesIn(every_family()));

TEST_P(EveryFamilyTuned, AdaptersAloneAreTrainedAndKept) {
  config::RunConfig c = tiny(GetParam());
  const Curve plain = run(c, 1);
  c.lora.rank = 4;
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  trainer->initialize();
  const auto before = bytes_of(*trainer);
  data::BatchSource source = batches(c);
  std::vector<double> losses;
  // One batch again and again: over ten of random tokens a loss need not fall.
  for (int s = 0; s < 10; ++s) losses.push_back(trainer->step(1, 1e-2, source).loss);
  EXPECT_NEAR(losses[0], plain.losses[0], 1e-6 * losses[0]);  // B starts at zero
  EXPECT_LT(losses.back(), losses[0]);
  int64_t adapters = 0;
  for (const auto& [name, bytes] : bytes_of(*trainer)) {
    const bool adapter = name.find(".lora_") != name.npos;
    EXPECT_EQ(bytes != before.at(name), adapter) << name;
    EXPECT_TRUE(adapter || name.find('|') == name.npos) << name;
    if (adapter && name.find('|') == name.npos) adapters += static_cast<int64_t>(bytes.size()) / 4;
  }
  // Two f32 moments an adapter's element and nothing else, but for the alignment of members.
  const compile::MemoryPlan m = compile::memory_plan(trainer->program());
  EXPECT_GE(m.optimizer, 8 * adapters);
  EXPECT_LT(m.optimizer, 8 * adapters + 8 * 64 * 64);
}

TEST_P(EveryFamilyTuned, WhatIsFrozenStays) {
  config::RunConfig c = tiny(GetParam());
  c.optimizer.freeze = {"embed.*", "*.attn.*"};
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  trainer->initialize();
  const auto before = bytes_of(*trainer);
  data::BatchSource source = batches(c);
  for (int s = 1; s <= 2; ++s) EXPECT_TRUE(trainer->step(s, 1e-2, source).finite);
  for (const auto& [name, bytes] : bytes_of(*trainer)) {
    const bool frozen = name.find("embed.") == 0 || name.find(".attn.") != name.npos;
    EXPECT_EQ(bytes == before.at(name), frozen) << name;
  }
}

// A pattern adapts experts only if it names them.
TEST(Adapters, PatternsOfExpertsNameThem) {
  const auto adapted = [](const char* target) {
    config::RunConfig c = tiny(model::Family::kMixtral);
    c.lora.rank = 2;
    c.lora.targets = {target};
    const auto world = comm::self_world();
    bool experts = false, others = false;
    for (const auto& [name, bytes] : bytes_of(*trainer_of(c, *world)))
      if (name.find(".lora_a") != name.npos)
        (name.find(".experts.") != name.npos ? experts : others) = true;
    return std::pair(others, experts);
  };
  EXPECT_EQ(adapted("*"), std::pair(true, false));
  EXPECT_EQ(adapted("all-linear"), std::pair(true, false));
  EXPECT_EQ(adapted("*.experts.*"), std::pair(false, true));
}

TEST(Adapters, TargetsAndPatternsThatNameNothingAreRefused) {
  config::RunConfig c = tiny(model::Family::kLlama);
  const auto world = comm::self_world();
  c.lora.rank = 2;
  c.lora.targets = {"layer.attn.qvk.weight"};
  EXPECT_THROW(trainer_of(c, *world), Error);
  c = tiny(model::Family::kLlama);
  c.optimizer.freeze = {"embedding"};
  EXPECT_THROW(trainer_of(c, *world), Error);
  c.optimizer.freeze = {"*"};
  EXPECT_THROW(trainer_of(c, *world), Error);
}

}  // namespace
}  // namespace tessera::train
