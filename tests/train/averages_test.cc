// Means of weights in whole runs: optimizer.ema, and the optimizer schedule_free, which evaluates,
// saves and loads its average. References are computed in double precision from the formulas.
#include <cmath>
#include <map>

#include "checkpoint/async_save.h"
#include "checkpoint/folders.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/data/dataset_fixture.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

using Numbers = std::vector<double>;
using State = std::map<std::string, Numbers>;

std::unique_ptr<Trainer> trainer_of(const config::RunConfig& c, comm::World& world) {
  return std::make_unique<Trainer>(
      c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX, world,
      std::function<double()>());
}

State numbers_of(const std::vector<checkpoint::StateTensor>& tensors) {
  State all;
  for (const checkpoint::StateTensor& t : tensors) {
    Numbers& x = all[t.name];
    for (int64_t i = 0; i < t.data.elements(); ++i)
      x.push_back(t.dtype == DType::kF32
                      ? static_cast<double>(t.data.f32()[i])
                      : static_cast<double>(static_cast<float>(t.data.as<BF16>()[i])));
  }
  return all;
}

// |a - b| / |b|, as vectors.
double distance(const Numbers& a, const Numbers& b) {
  double difference = 0, size = 1e-30;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

// A run whose gradients are read after each step, in units of the update: the mean over the tokens.
struct TinyRun {
  explicit TinyRun(const config::RunConfig& c)
      : world(comm::self_world()), trainer(trainer_of(c, *world)), source(batches(c)) {
    trainer->initialize();
  }
  State state() { return numbers_of(trainer->state()); }
  State gradients(double tokens) {
    State all = numbers_of(trainer->gradients());
    for (auto& [name, g] : all)
      for (double& x : g) x /= tokens;
    return all;
  }

  std::unique_ptr<comm::World> world;
  std::unique_ptr<Trainer> trainer;
  data::BatchSource source;
};

class AveragesIn : public testing::TestWithParam<compile::Precision> {};
INSTANTIATE_TEST_SUITE_P(Averages, AveragesIn,
                         testing::Values(compile::Precision::kFp32, compile::Precision::kBf16,
                                         compile::Precision::kBf16Sr));

// With every optimizer, from the initial weights on; the weights themselves do not change.
TEST_P(AveragesIn, TheMeanFollowsTheWeights) {
  for (const OptimizerTraits& o : kOptimizers) {
    config::RunConfig c = tiny(model::Family::kLlama);
    c.optimizer = config::optimizer_defaults(o.kind);
    c.precision = GetParam();
    TinyRun plain(c);
    c.optimizer.ema = 0.8;
    TinyRun run(c);
    State wanted = plain.state();
    for (const auto& [name, x] : wanted) {
      if (name.find('|') != name.npos) continue;
      ASSERT_TRUE(run.state().contains(name + "|average")) << name;
      if (GetParam() != compile::Precision::kBf16Sr) {
        EXPECT_EQ(run.state().at(name + "|average"), x) << name;
      } else {  // whose initial weights are rounded
        EXPECT_LT(distance(run.state().at(name + "|average"), x), 0x1p-8) << name;
      }
    }
    for (auto& [name, x] : wanted)
      if (name.find('|') == name.npos) x = run.state().at(name + "|average");
    for (int64_t step = 1; step <= 4; ++step) {
      plain.trainer->step(step, 1e-2, plain.source);
      run.trainer->step(step, 1e-2, run.source);
      const State weights = plain.state(), found = run.state();
      for (auto& [name, mean] : wanted) {
        if (name.find('|') != name.npos) continue;
        EXPECT_EQ(found.at(name), weights.at(name)) << name;
        for (size_t i = 0; i < mean.size(); ++i)
          mean[i] = 0.8 * mean[i] + 0.2 * weights.at(name)[i];
        EXPECT_LT(distance(found.at(name + "|average"), mean), 1e-6) << o.name << ' ' << name;
      }
    }
  }
}

TEST(Averages, AStepThatOverflowsChangesNoMean) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.precision = compile::Precision::kFp16;
  c.optimizer.ema = 0.5;
  TinyRun run(c);
  ASSERT_TRUE(run.trainer->step(1, 1e-2, run.source, {}, 256).finite);
  const State before = run.state();
  EXPECT_FALSE(run.trainer->step(2, 1e-2, run.source, {}, 0x1p24).finite);
  EXPECT_TRUE(run.state() == before);
}

// The formulas of base/optimizer_kind.h with the gradients of the run, which are those at y.
TEST(ScheduleFree, StateFollowsTheFormulas) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.optimizer = config::optimizer_defaults(OptimizerKind::kScheduleFree);
  c.optimizer.weight_decay = 0.1;
  c.optimizer.clip_norm = 0;
  c.optimizer.epsilon = 1e-6;
  c.schedule.kind = config::ScheduleKind::kConstant;
  c.schedule.warmup_steps = 2;
  TinyRun run(c);
  State z = run.state(), x = z, v;
  const double rates[] = {0, 0.005, 0.01, 0.01, 0.01};
  double sum = 0;
  for (int64_t step = 1; step <= 5; ++step) {
    const double rate = rates[step - 1];
    const StepResult r = run.trainer->step(step, rate, run.source);
    const State gradients = run.gradients(r.tokens), found = run.state();
    sum += rate * rate;
    const double share = sum > 0 ? rate * rate / sum : 0;
    for (const auto& [name, gradient] : gradients) {
      const bool decays = found.at(name).size() > 32;  // matrices
      v.try_emplace(name, Numbers(gradient.size()));
      for (size_t i = 0; i < gradient.size(); ++i) {
        double &zi = z.at(name)[i], &xi = x.at(name)[i], &vi = v.at(name)[i];
        const double y = 0.9 * xi + 0.1 * zi, g = gradient[i];
        vi = 0.999 * vi + 0.001 * g * g;
        const double root = std::sqrt(vi / (1 - std::pow(0.999, static_cast<double>(step))));
        zi -= rate * (g / (root + 1e-6) + (decays ? 0.1 * y : 0));
        xi += share * (zi - xi);
      }
      EXPECT_LT(distance(found.at(name), x.at(name)), 2e-6) << name << " step " << step;
      EXPECT_LT(distance(found.at(name + "|iterate"), z.at(name)), 2e-6) << name;
    }
  }
}

class Validated : public data::DatasetFixture {
 protected:
  Validated() {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 24 * 6 + 1; ++i) ids.push_back((i * i * 7 + 3) % 96);
    prefix_ = dataset("text", {ids});
  }
  double loss(Trainer& trainer) {
    data::DatasetSpec spec;
    spec.datasets = {{prefix_, 1}};
    spec.sequence_length = 24;
    spec.vocabulary = 96;
    const data::ValidationData data(spec);
    return trainer.validate(data, data.samples(), [](int64_t) {}).loss();
  }

  std::string prefix_;
};

// A validation reads x, and leaves the run as it was, bit for bit; a checkpoint has x as its
// weights; a run that resumes from it has the same bits.
TEST_F(Validated, ScheduleFreeIsEvaluatedAtItsAverage) {
  for (const compile::Precision precision :
       {compile::Precision::kFp32, compile::Precision::kBf16, compile::Precision::kBf16Sr}) {
    config::RunConfig c = tiny(model::Family::kLlama);
    c.optimizer = config::optimizer_defaults(OptimizerKind::kScheduleFree);
    c.schedule.kind = config::ScheduleKind::kConstant;
    c.precision = precision;
    TinyRun run(c), undisturbed(c);
    for (int64_t step = 1; step <= 4; ++step) {
      run.trainer->step(step, 1e-2, run.source);
      undisturbed.trainer->step(step, 1e-2, undisturbed.source);
      if (step == 2) loss(*run.trainer);
    }
    const State state = run.state();
    EXPECT_TRUE(state == undisturbed.state()) << name_of_entry(precision);
    const double found = loss(*run.trainer);
    checkpoint::save(folder_ / name_of_entry(precision), checkpoint::sample_header(4),
                     run.trainer->state());
    checkpoint::CheckpointReader reader(
        checkpoint::find_latest(folder_ / name_of_entry(precision)).found->path);
    // Another optimizer reads the same weights, and validates them as they are.
    config::RunConfig adamw = tiny(model::Family::kLlama);
    adamw.precision = precision;
    TinyRun other(adamw);
    other.trainer->load(reader, config::Load::kWeights);
    EXPECT_EQ(loss(*other.trainer), found) << name_of_entry(precision);
    EXPECT_NE(state.at("embed.weight"), state.at("embed.weight|iterate"));
    TinyRun resumed(c);
    resumed.trainer->load(reader, config::Load::kAll);
    const StepResult a = run.trainer->step(5, 1e-2, run.source);
    const StepResult b = resumed.trainer->step(5, 1e-2, resumed.source);
    EXPECT_EQ(a.loss, b.loss) << name_of_entry(precision);
    EXPECT_TRUE(run.state() == resumed.state()) << name_of_entry(precision);
  }
}

// A run that starts from weights begins its means there, and so does one whose checkpoint has none;
// another one continues them. Readers choose the mean by its weight's name.
TEST_F(Validated, MeansAreSavedAndResumed) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.optimizer.ema = 0.5;
  TinyRun run(c);
  for (int64_t step = 1; step <= 2; ++step) run.trainer->step(step, 1e-2, run.source);
  const State saved = run.state();
  const checkpoint::CheckpointHeader header = checkpoint::sample_header(2);
  checkpoint::save(folder_ / "with", header, run.trainer->state());
  const Path path = checkpoint::find_latest(folder_ / "with").found->path;
  checkpoint::CheckpointReader reader(path);
  TinyRun resumed(c);
  resumed.trainer->load(reader, config::Load::kAll);
  EXPECT_TRUE(resumed.state() == saved);
  resumed.trainer->load(reader, config::Load::kWeights);
  EXPECT_EQ(resumed.state().at("embed.weight|average"), saved.at("embed.weight"));
  EXPECT_NE(saved.at("embed.weight|average"), saved.at("embed.weight"));
  // Without means.
  c.optimizer.ema = 0;
  TinyRun without(c);
  without.trainer->load(reader, config::Load::kAll);
  EXPECT_FALSE(without.state().contains("embed.weight|average"));
  checkpoint::save(folder_ / "without", header, without.trainer->state());
  checkpoint::CheckpointReader plain(checkpoint::find_latest(folder_ / "without").found->path);
  EXPECT_THROW(plain.use_averages(), Error);
  c.optimizer.ema = 0.5;
  TinyRun late(c);
  late.trainer->load(plain, config::Load::kAll);
  EXPECT_EQ(late.state().at("embed.weight|average"), saved.at("embed.weight"));
  reader.use_averages();
  TinyRun averaged(c);
  averaged.trainer->load(reader, config::Load::kWeights);
  EXPECT_EQ(averaged.state().at("embed.weight"), saved.at("embed.weight|average"));
}

}  // namespace
}  // namespace tessera::train
