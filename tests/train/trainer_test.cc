// Compiler options must not change what is computed: one tiny model, one batch, every way.
#include <cmath>

#include "compile/compile.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

constexpr double kRounding = 2e-6;  // f32 sums in another order, a few steps

class EveryFamily : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Trainer, EveryFamily, testing::ValuesIn(every_decoder()));

TEST_P(EveryFamily, OptionsChangeNothing) {
  const Curve plain = run(tiny(GetParam()));
  config::RunConfig c = tiny(GetParam());
  c.compiler.attention = compile::AttentionKind::kUnfused;
  expect_same(plain, run(c), kRounding);
  c = tiny(GetParam());
  c.compiler.cross_entropy = compile::CrossEntropyKind::kUnfused;
  expect_same(plain, run(c), kRounding);
  c = tiny(GetParam());
  c.compiler.fuse_bias_gelu = c.compiler.fuse_residual_norm = false;
  expect_same(plain, run(c), kRounding);
}

// Terms of the loss change the gradients, not the reported cross-entropy of a step, in both forms;
// the z-loss has a figure of its own.
TEST_P(EveryFamily, TermsOfTheLossAreApartFromIt) {
  config::RunConfig c = tiny(GetParam());
  const auto first = [&] {
    const auto world = comm::self_world();
    Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2),
                    INT64_MAX, *world, {});
    trainer.initialize();
    data::BatchSource source = batches(c);
    return trainer.step(1, 1e-3, source);
  };
  const StepResult plain = first();
  EXPECT_FALSE(plain.z_loss);
  c.loss.z_loss = 0.01;
  const StepResult z = first();
  c.loss = {.z_loss = 0, .label_smoothing = 0.3};
  const StepResult smooth = first();
  c.loss.z_loss = 0.01;
  const StepResult fused = first();
  c.compiler.cross_entropy = compile::CrossEntropyKind::kUnfused;
  const StepResult unfused = first();
  ASSERT_TRUE(z.z_loss && fused.z_loss && unfused.z_loss);
  EXPECT_FALSE(smooth.z_loss);
  // Initial logits are near zero, so logsumexp is near ln V.
  const double nats = std::log(static_cast<double>(c.model.padded_vocabulary()));
  EXPECT_NEAR(*z.z_loss, 0.01 * nats * nats, 0.4 * *z.z_loss);
  for (const StepResult& r : {z, smooth, fused}) {
    EXPECT_EQ(r.loss, plain.loss);
    EXPECT_GT(std::abs(r.grad_norm - plain.grad_norm), 100 * kRounding * plain.grad_norm);
  }
  EXPECT_NEAR(unfused.loss, fused.loss, kRounding * fused.loss);
  EXPECT_NEAR(unfused.grad_norm, fused.grad_norm, 10 * kRounding * fused.grad_norm);
  EXPECT_NEAR(*unfused.z_loss, *fused.z_loss, kRounding * *fused.z_loss);
}

TEST_P(EveryFamily, RecomputationGivesTheSameBits) {
  config::RunConfig c = tiny(GetParam());
  c.model.dropout = c.model.attention_dropout = 0.1;
  const Curve plain = run(c);
  for (const char* policy : {"selective", "full", "full:1"}) {
    c.layout.recompute = policy;
    const Curve other = run(c);
    EXPECT_EQ(plain.losses, other.losses) << policy;
    EXPECT_EQ(plain.norms, other.norms) << policy;
  }
}

// With every layout of what is kept, and with bytes that nobody needs made NaN.
TEST_P(EveryFamily, OffloadGivesTheSameBits) {
  config::RunConfig c = tiny(GetParam());
  c.model.layers = 5;
  c.model.dropout = 0.1;
  struct Copied {
    const char *recompute, *what;
    std::vector<int64_t> overlaps;
  };
  for (const auto& [recompute, what, overlaps] :
       {Copied{"none", "activations", {0, 3}}, Copied{"selective", "activations:2", {1}},
        Copied{"full", "activations", {1}}}) {
    c.layout.recompute = recompute;
    c.layout.offload = "none";
    c.compiler.poison = false;
    const Curve kept = run(c);
    c.layout.offload = what;
    c.compiler.poison = true;
    for (const int64_t overlap : overlaps) {
      c.layout.overlap = overlap;
      const Curve copied = run(c);
      EXPECT_EQ(kept.losses, copied.losses) << recompute << ' ' << what;
      EXPECT_EQ(kept.norms, copied.norms) << recompute << ' ' << what;
    }
  }
  c.layout.recompute = "none";
  const Program p =
      compile::compile(config::compile_request(c, compile::ProgramKind::kTrain), Target{});
  EXPECT_GT(p.host_bytes, 0);
}

// Master weights and moments in the host's memory, with each optimizer and precision, and with
// bytes that nobody needs made NaN.
TEST_P(EveryFamily, OptimizerOnTheHostGivesTheSameBits) {
  config::RunConfig c = tiny(GetParam());
  int64_t moved = 0;
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kAdafactor, OptimizerKind::kLion, OptimizerKind::kSgd,
        OptimizerKind::kScheduleFree})
    for (const compile::Precision precision :
         {compile::Precision::kFp32, compile::Precision::kBf16, compile::Precision::kBf16Sr}) {
      c.optimizer.kind = kind;
      c.precision = precision;
      c.layout.offload = "none";
      c.compiler.poison = false;
      const Curve kept = run(c);
      c.layout.offload = kind == OptimizerKind::kAdamW ? "activations+optimizer" : "optimizer";
      c.compiler.poison = true;
      const bool all = precision == compile::Precision::kBf16 && kind == OptimizerKind::kAdamW;
      for (const int64_t overlap : all ? std::vector<int64_t>{0, 1, 3} : std::vector<int64_t>{1}) {
        c.layout.overlap = overlap;
        const Curve copied = run(c);
        EXPECT_EQ(kept.losses, copied.losses) << name_of_entry(kind) << name_of_entry(precision);
        EXPECT_EQ(kept.norms, copied.norms) << name_of_entry(kind) << name_of_entry(precision);
      }
      moved += compile::compile(config::compile_request(c, compile::ProgramKind::kTrain), Target{})
                   .host_bytes > 0;
    }
  EXPECT_GE(moved, 9);
}

// What other systems compute again, for plans of them: attention alone, and layers to their end.
TEST_P(EveryFamily, OtherRecomputationGivesTheSameBits) {
  for (const compile::AttentionKind attention :
       {compile::AttentionKind::kFused, compile::AttentionKind::kUnfused}) {
    config::RunConfig c = tiny(GetParam());
    c.model.dropout = c.model.attention_dropout = 0.1;
    c.compiler.attention = attention;
    const Curve plain = run(c);
    c.compiler.selective_recompute = compile::SelectiveRecompute::kCoreAttention;
    c.layout.recompute = "selective";
    EXPECT_EQ(plain.losses, run(c).losses);
    c.compiler.full_recompute = compile::FullRecompute::kAll;
    c.compiler.poison = true;
    c.layout.recompute = "full";
    const Curve whole = run(c);
    EXPECT_EQ(plain.losses, whole.losses);
    EXPECT_EQ(plain.norms, whole.norms);
  }
}

// Scores in bf16 round where fused attention does not; losses agree to a few steps of bf16.
TEST_P(EveryFamily, HalfScoresAreNear) {
  config::RunConfig c = tiny(GetParam());
  c.precision = compile::Precision::kBf16;
  const Curve fused = run(c);
  c.compiler.attention = compile::AttentionKind::kUnfused;
  c.compiler.attention_scores_dtype = compile::AttentionScoresDType::kCompute;
  const Curve half = run(c);
  expect_same(fused, half, 4e-3);
  EXPECT_NE(fused.losses, half.losses);
}

TEST_P(EveryFamily, MicrobatchesAddUp) {
  config::RunConfig c = tiny(GetParam());
  const Curve two = run(c);
  c.batch.micro = 4;
  expect_same(two, run(c), kRounding);
  c.batch.micro = 1;
  expect_same(two, run(c), kRounding);
}

TEST_P(EveryFamily, PoisonChangesNothing) {
  config::RunConfig c = tiny(GetParam());
  for (const char* policy : {"none", "selective", "full"}) {
    c.layout.recompute = policy;
    c.compiler.poison = false;
    const Curve plain = run(c);
    c.compiler.poison = true;
    const Curve poisoned = run(c);
    EXPECT_EQ(plain.losses, poisoned.losses) << policy;
    EXPECT_EQ(plain.norms, poisoned.norms) << policy;
  }
}

// Operands have three bits of mantissa, scaled per tensor: a step's loss moves by less than a
// hundredth, and recomputed or offloaded layers round as the first time did. Other families add
// sublayer outputs that are small next to the hidden states at the start, so their rounding errors
// are small, too. OLMo 2 has no norm before a sublayer and one after it, which scales the rounded
// output to the size of the hidden states; its bound for norms is therefore twice as large. Of
// DeepSeek-V2 the norms of a model this small move by a quarter, of DeepSeek-V3 by less than a
// tenth.
TEST_P(EveryFamily, EightBitProductsAreNear) {
  const model::Family family = GetParam();
  const double norm_bound = family == model::Family::kOlmo2        ? 0.2
                            : family == model::Family::kDeepseekV2 ? 0.3
                                                                   : 0.1;
  config::RunConfig c = tiny(GetParam());
  c.model.layers = 5;
  for (const compile::Precision p : {compile::Precision::kFp32, compile::Precision::kBf16}) {
    c.precision = p;
    c.compiler.gemm_dtype = compile::GemmDType::kCompute;
    const Curve exact = run(c);
    c.compiler.gemm_dtype = compile::GemmDType::kFp8;
    const Curve rounded = run(c);
    EXPECT_NE(exact.losses, rounded.losses);
    for (size_t i = 0; i < exact.losses.size(); ++i) {
      EXPECT_NEAR(rounded.losses[i], exact.losses[i], 1e-2 * exact.losses[i]);
      EXPECT_NEAR(rounded.norms[i], exact.norms[i], norm_bound * exact.norms[i]);
    }
    config::RunConfig again = c;
    again.layout.recompute = "full";
    again.layout.offload = "activations";
    EXPECT_EQ(run(again).losses, rounded.losses);
  }
}

// Rows of scores begin at whole blocks of random numbers in both cases, whatever their length.
TEST(Trainer, F1_AttentionDropoutIsTheSameFusedOrNot) {
  for (const int64_t tokens : {13, 15, 16, 17, 18, 23})
    for (const model::Family family : {model::Family::kLlama, model::Family::kNeox}) {
      config::RunConfig c = tiny(family);
      c.data.sequence_length = tokens;
      c.model.attention_dropout = 0.3;
      const Curve fused = run(c, 2);
      c.compiler.attention = compile::AttentionKind::kUnfused;
      SCOPED_TRACE(tokens);
      expect_same(fused, run(c, 2), 1e-6);
    }
}

TEST_P(EveryFamily, Bf16IsNear) {
  config::RunConfig c = tiny(GetParam());
  const Curve exact = run(c);
  c.precision = compile::Precision::kBf16;
  const Curve rounded = run(c);
  for (size_t i = 0; i < exact.losses.size(); ++i)
    EXPECT_NEAR(rounded.losses[i], exact.losses[i], 5e-3 * exact.losses[i]);
  c.compiler.cross_entropy = compile::CrossEntropyKind::kUnfused;
  expect_same(rounded, run(c), 1e-3);
}

// The gradient of every weight against central differences of the loss, in its largest element.
TEST_P(EveryFamily, GradientsAreTheDerivativesOfTheLoss) {
  config::RunConfig c = tiny(GetParam());
  c.optimizer.weight_decay = 0;
  c.model.experts_per_token = c.model.experts;  // no choice: the loss has a derivative everywhere
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1), INT64_MAX,
                  *world, {});
  trainer.initialize();
  data::BatchSource source = batches(c);
  trainer.step(1, 0.0, source);  // learning rate 0: the weights stay
  std::vector<checkpoint::StateTensor> state = trainer.state();
  struct Probe {
    std::string name;
    float* weight;
    double gradient;
  };
  std::vector<Probe> probes;
  const double tokens = trainer.gradient_factor();
  for (const checkpoint::StateTensor& g : trainer.gradients()) {
    int64_t largest = 0;
    for (int64_t i = 0; i < g.data.elements(); ++i)
      if (std::abs(g.data.f32()[i]) > std::abs(g.data.f32()[largest])) largest = i;
    for (const checkpoint::StateTensor& t : state)
      if (t.name == g.name)
        probes.push_back({g.name, t.data.f32() + largest, g.data.f32()[largest] / tokens});
  }
  for (const Probe& p : probes) {
    if (std::abs(p.gradient) < 1e-4) continue;  // below what f32 differences resolve
    const float saved = *p.weight, h = 1e-2f;
    *p.weight = saved + h;
    const double up = trainer.step(1, 0.0, source).loss;
    *p.weight = saved - h;
    const double down = trainer.step(1, 0.0, source).loss;
    *p.weight = saved;
    EXPECT_NEAR((up - down) / (2.0 * h), p.gradient, 0.02 * std::abs(p.gradient) + 1e-4) << p.name;
  }
}

TEST(Trainer, NothingIsUpdatedWhereANumberIsNotFinite) {
  config::RunConfig c = tiny(model::Family::kNeox);
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialize();
  data::BatchSource source = batches(c);
  std::vector<checkpoint::StateTensor> state = trainer.state();
  float* bad = nullptr;
  const float* other = nullptr;
  for (const checkpoint::StateTensor& t : state) {
    if (t.name == "layer1.mlp.up.weight") bad = t.data.f32();
    if (t.name == "head.weight") other = t.data.f32();
  }
  *bad = INFINITY;
  const float before = *other;
  EXPECT_FALSE(trainer.step(1, 1e-2, source).finite);
  EXPECT_EQ(*other, before);
}

}  // namespace
}  // namespace tessera::train
