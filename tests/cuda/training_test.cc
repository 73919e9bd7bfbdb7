// Whole steps of training on a CUDA device against the CPU: the same losses and norms.
#include <cstring>

#include "tests/cuda/device.h"
#include "tests/cuda/first_executor.h"
#include "tests/train/tiny_run.h"
#include "train/diagnose.h"
#include "train/run_device.h"

namespace tessera {
namespace {

class CudaTraining : public testing::OnGpu {
 protected:
  train::Curve on_gpu(const config::RunConfig& c, int steps) {
    const auto world = comm::self_world();
    train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
    return train::curve_of(trainer, c, steps);
  }
};

// Of four steps the first is enqueued, the second becomes a graph, the others are its launches.
TEST_F(CudaTraining, FamiliesInF32) {
  for (const model::Family family : {model::Family::kGpt2, model::Family::kNeox,
                                     model::Family::kLlama, model::Family::kMixtral}) {
    const config::RunConfig c = train::tiny(family);
    train::expect_same(on_gpu(c, 4), train::run(c, 4), 1e-5);
  }
}

TEST_F(CudaTraining, LossesAndBiasesOfRouters) {
  config::RunConfig c = train::tiny(model::Family::kMixtral);
  c.model.router = {.score = RouterScore::kSigmoid,
                    .groups = 4,
                    .groups_chosen = 2,
                    .balance_loss = 0.1,
                    .z_loss = 0.01,
                    .bias = true};
  train::expect_same(on_gpu(c, 4), train::run(c, 4), 1e-5);
}

TEST_F(CudaTraining, ExpertsWithACapacity) {
  for (const model::Family family : {model::Family::kMixtral, model::Family::kGptOss}) {
    config::RunConfig c = train::tiny(family);
    c.model.router.balance_loss = 0.1;
    c.model.router.capacity_factor = 0.75;
    train::expect_same(on_gpu(c, 4), train::run(c, 4), 1e-5);
  }
}

TEST_F(CudaTraining, PoliciesOfPrecision) {
  for (const model::Family family : {model::Family::kLlama, model::Family::kMixtral})
    for (const compile::Precision p : {compile::Precision::kBf16, compile::Precision::kBf16Sr}) {
      config::RunConfig c = train::tiny(family);
      c.precision = p;
      train::expect_same(on_gpu(c, 3), train::run(c, 3), 2e-3);
    }
}

// A sum in another order may turn a rounding to eight bits, so bounds are those of 16 bits.
TEST_F(CudaTraining, ProductsInEightBits) {
  config::RunConfig c = train::tiny(model::Family::kLlama);
  c.model.layers = 1;
  c.compiler.gemm_dtype = compile::GemmDType::kFp8;
  train::expect_same(on_gpu(c, 3), train::run(c, 3), 2e-3);
}

TEST(CardOf, EightBitsAreRefusedBeforeACardThatHasThem) {
  config::RunConfig c = train::tiny(model::Family::kLlama);
  GpuFeatures card;
  card.model = "an older card";
  card.architecture = 80;
  EXPECT_NO_THROW(train::require_card_for(c, card));
  c.compiler.gemm_dtype = compile::GemmDType::kFp8;
  try {
    train::require_card_for(c, card);
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "compiler.gemm_dtype = fp8 needs a GPU with sm_89 or later, but an older card has "
                 "sm_80. Set compiler.gemm_dtype=compute.");
  }
  for (const int later : {89, 90, 100}) {
    card.architecture = later;
    EXPECT_NO_THROW(train::require_card_for(c, card));
  }
}

// Its bias table has a gradient of its own, of 16 bits here.
TEST_F(CudaTraining, EncoderAndDecoderInSixteenBits) {
  config::RunConfig c = train::tiny(model::Family::kT5);
  c.model.layers = c.model.encoder_layers = 1;
  c.precision = compile::Precision::kBf16Sr;
  train::expect_same(on_gpu(c, 2), train::run(c, 2), 2e-3);
}

TEST_F(CudaTraining, ArenasAreAsPlanned) {
  const config::RunConfig c = train::tiny(model::Family::kGpt2);
  const auto world = comm::self_world();
  train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
  EXPECT_EQ(trainer.engine().arena_bytes(), trainer.engine().planned_bytes());
  const std::string line = train::device_memory_line(trainer.engine(), features_);
  const std::string bytes = std::to_string(trainer.program().bytes);
  EXPECT_NE(line.find(bytes + " bytes planned, " + bytes + " allocated"), std::string::npos)
      << line;
}

TEST_F(CudaTraining, RecomputedLayers) {
  config::RunConfig c = train::tiny(model::Family::kNeox);
  c.layout.recompute = "full";
  train::expect_same(on_gpu(c, 3), train::run(c, 3), 1e-5);
}

TEST_F(CudaTraining, OffloadedActivations) {
  config::RunConfig c = train::tiny(model::Family::kNeox);
  c.model.layers = 3;
  const train::Curve kept = on_gpu(c, 3);
  c.layout.offload = "activations";
  EXPECT_GT(
      train::Trainer(c, gpu_prepared(), INT64_MAX, *comm::self_world(), {}).program().host_bytes,
      0);
  const train::Curve offloaded = on_gpu(c, 3);
  EXPECT_EQ(offloaded.losses, kept.losses);
  EXPECT_EQ(offloaded.norms, kept.norms);
  train::expect_same(offloaded, train::run(c, 3), 1e-5);
}

TEST_F(CudaTraining, OffloadedOptimizer) {
  for (const compile::Precision precision :
       {compile::Precision::kFp32, compile::Precision::kBf16}) {
    config::RunConfig c = train::tiny(model::Family::kNeox);
    c.model.layers = 3;
    c.precision = precision;
    const train::Curve kept = on_gpu(c, 4);
    c.layout.offload = "activations+optimizer";
    const train::Curve offloaded = on_gpu(c, 4);
    EXPECT_EQ(offloaded.losses, kept.losses);
    EXPECT_EQ(offloaded.norms, kept.norms);
  }
}

// A save reads state on the host where it is, so every run waits for it, graphs too.
TEST_F(CudaTraining, UpdatesOfStateOnTheHostWaitForReaders) {
  config::RunConfig c = train::tiny(model::Family::kGpt2);
  for (const char* offload : {"none", "optimizer"}) {
    c.layout.offload = offload;
    const auto world = comm::self_world();
    train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
    trainer.initialize();
    data::BatchSource source = train::batches(c);
    int64_t waits = 0;
    trainer.engine().hooks().before_update = [&] { ++waits; };
    for (int s = 1; s <= 3; ++s) {
      const int64_t before = waits;
      trainer.step(s, 1e-3, source);
      EXPECT_EQ(waits > before, c.layout.offload == "optimizer") << "step " << s;
    }
  }
}

TEST_F(CudaTraining, AttentionInParts) {
  config::RunConfig c = train::tiny(model::Family::kLlama);
  c.compiler.attention = compile::AttentionKind::kUnfused;
  train::expect_same(on_gpu(c, 3), train::run(c, 3), 1e-5);
}

TEST_F(CudaTraining, Adafactor) {
  config::RunConfig c = train::tiny(model::Family::kGpt2);
  c.optimizer.kind = OptimizerKind::kAdafactor;
  c.optimizer.beta1 = 0.9;
  train::expect_same(on_gpu(c, 4), train::run(c, 4), 1e-5);
}

TEST_F(CudaTraining, AveragesAndTermsOfTheLoss) {
  config::RunConfig c = train::tiny(model::Family::kLlama);
  c.optimizer = config::optimizer_defaults(OptimizerKind::kScheduleFree);
  c.optimizer.ema = 0.5;
  c.loss = {.z_loss = 0.01, .label_smoothing = 0.2};
  for (const compile::CrossEntropyKind form :
       {compile::CrossEntropyKind::kFused, compile::CrossEntropyKind::kUnfused}) {
    c.compiler.cross_entropy = form;
    train::expect_same(on_gpu(c, 4), train::run(c, 4), 1e-5);
  }
}

TEST_F(CudaTraining, Muon) {
  for (const model::Family family : {model::Family::kGpt2, model::Family::kMixtral}) {
    config::RunConfig c = train::tiny(family);
    c.optimizer.kind = OptimizerKind::kMuon;
    train::expect_same(on_gpu(c, 4), train::run(c, 4), 1e-5);
  }
}

// A run in several graphs gives the same results; one with too many nodes uses no graph.
TEST_F(CudaTraining, D_B9_GraphsAreCut) {
  const config::RunConfig c = train::tiny(model::Family::kLlama);
  const train::Curve want = on_gpu(c, 4);
  std::vector<std::string> said;
  for (const int64_t most : {INT64_MAX, int64_t{100}}) {
    const auto world = comm::self_world();
    train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
    trainer.engine().hooks().captured = [&](const std::string& line) { said.push_back(line); };
    runtime::StepGraphs& graphs = testing::stream_executor(trainer).graphs();
    graphs.limits = {.graph_nodes = 30, .nodes = most};
    const train::Curve got = train::curve_of(trainer, c, 4);
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_EQ(got.norms, want.norms);
    if (most == INT64_MAX) {
      EXPECT_GT(graphs.size(), 2);
    } else {
      EXPECT_EQ(graphs.size(), 0);
    }
    EXPECT_EQ(trainer.engine().executor(0).can_run_ahead(), most == INT64_MAX);
  }
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[0].find("nodes of train in"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("none for train: it has more than 100 nodes"), std::string::npos)
      << said[1];
}

// The host starts a step while the one before is under way: the same bits.
TEST_F(CudaTraining, TheHostIsAhead) {
  const config::RunConfig c = train::tiny(model::Family::kLlama);
  const train::Curve want = on_gpu(c, 7);
  const auto world = comm::self_world();
  train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
  data::BatchSource source = train::batches(c);
  trainer.initialize();
  train::Curve got;
  const auto keep = [&](const train::StepResult& r) {
    got.losses.push_back(r.loss);
    got.norms.push_back(r.grad_norm);
  };
  for (int step = 1; step <= 7; ++step) {
    if (!trainer.can_start_step(step)) {
      keep(trainer.step(step, 1e-3, source));
      continue;
    }
    EXPECT_GE(step, 3);
    trainer.prepare_step(step, 1e-3, source);
    trainer.start_step();
    if (trainer.under_way() == 2) keep(trainer.finish_step());
  }
  EXPECT_EQ(trainer.under_way(), 1);
  keep(trainer.finish_step());
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.norms, want.norms);
}

// An id beyond the vocabulary is a row of NaN. The step behind it, which began before anybody knew,
// leaves the weights alone, and the bad step can be looked at again.
TEST_F(CudaTraining, BehindABadStepNothingIsUpdated) {
  constexpr int kBad = 4;
  const config::RunConfig c = train::tiny(model::Family::kLlama);
  const data::BatchShape shape = config::batch_shape(c, 0);
  const auto source = [&] {
    return data::BatchSource(shape, [&](int64_t sample, std::span<int32_t> out) {
      for (size_t t = 0; t < out.size(); ++t)
        out[t] = static_cast<int32_t>((sample * 31 + static_cast<int64_t>(t * t) * 7 + 3) % 96);
      if (sample == shape.samples_before(kBad - 1) + 1) out[5] = 1'000'000;
      return static_cast<int64_t>(out.size());
    });
  };
  const auto world = comm::self_world();
  const auto begin = [&](train::Trainer& t, data::BatchSource& s) {
    t.initialize();
    for (int step = 1; step < kBad; ++step) EXPECT_TRUE(t.step(step, 1e-3, s).finite);
  };
  train::Trainer until(c, gpu_prepared(), INT64_MAX, *world, {});
  data::BatchSource its = source();
  begin(until, its);
  train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
  data::BatchSource ours = source();
  begin(trainer, ours);
  trainer.prepare_step(kBad, 1e-3, ours);
  trainer.start_step();
  trainer.prepare_step(kBad + 1, 1e-3, ours);
  trainer.start_step();
  EXPECT_FALSE(trainer.finish_step().finite);
  const std::string found = train::first_bad_value(trainer, *world);
  EXPECT_NE(found.find("(embedding): NaN at element"), std::string::npos) << found;
  const std::vector<checkpoint::StateTensor> want = until.state(), got = trainer.state();
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(
        std::memcmp(want[i].data.data, got[i].data.data, static_cast<size_t>(want[i].data.bytes())),
        0)
        << want[i].name;
}

// What is saved is what was trained.
TEST_F(CudaTraining, StateComesBackToTheHost) {
  const config::RunConfig c = train::tiny(model::Family::kGpt2);
  const auto world = comm::self_world();
  train::Trainer here(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                      INT64_MAX, *world, {});
  train::Trainer there(c, gpu_prepared(), INT64_MAX, *world, {});
  data::BatchSource source = train::batches(c);
  for (train::Trainer* t : {&here, &there}) {
    t->initialize();
    t->step(1, 1e-3, source);
  }
  const std::vector<checkpoint::StateTensor> want = here.state(), got = there.state();
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(want[i].name, got[i].name);
    if (want[i].dtype != DType::kF32) continue;
    for (int64_t e = 0; e < want[i].data.elements(); ++e)
      ASSERT_NEAR(want[i].data.f32()[e], got[i].data.f32()[e], 2e-3) << want[i].name << ' ' << e;
  }
}

}  // namespace
}  // namespace tessera
