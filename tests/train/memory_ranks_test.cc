// Memory over ranks, for each ZeRO stage and recomputation: the plan against what every rank takes,
// and its lines against the published formulas (Rajbhandari et al. 2020: 2 bytes a parameter for
// weights, 2 for gradients, 12 for the optimizer, divided as each stage says), with gradients in 16
// bits as there and in f32: 4 bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "model/presets.h"
#include "tests/comm/ranks.h"
#include "train/run_device.h"
#include "train/run_programs.h"
#include "train/trainer.h"

namespace tessera::testing {
namespace {

constexpr int64_t kTokens = 128;

config::RunConfig config_of(int64_t zero, const std::string& recompute,
                            compile::GradAccumDType gradients) {
  config::RunConfig c;
  model::apply_family(model::Family::kNeox, c.model);
  c.model.layers = 6;
  c.model.hidden = 256;
  c.model.heads = 4;
  c.model.vocabulary = 512;
  c.model.vocabulary_multiple = 1;
  c.model.context = kTokens;
  model::derive_sizes(c.model);
  c.data.sequence_length = kTokens;
  c.layout.data = ranks().size();
  c.layout.zero = zero;
  c.layout.recompute = recompute;
  c.batch.micro = 2;
  c.batch.global = 2 * c.batch.micro * c.layout.data;
  c.precision = compile::Precision::kBf16;
  c.compiler.grad_accum_dtype = gradients;
  return c;
}

// By the sizes above, of the whole model and of a layer.
constexpr double kLayer = 12.0 * 256 * 256 + 13 * 256;
constexpr double kParameters = 6 * kLayer + 2 * 512 * 256 + 2 * 256;

data::BatchSource batches(const config::RunConfig& c, int64_t rank) {
  data::BatchShape shape;
  shape.global = c.batch.global;
  shape.micro = c.batch.micro;
  shape.sequence_length = kTokens;
  shape.rank = rank;
  shape.ranks = c.layout.data;
  return data::BatchSource(shape, [](int64_t sample, std::span<int32_t> out) {
    for (size_t t = 0; t < out.size(); ++t)
      out[t] = static_cast<int32_t>((sample * 31 + static_cast<int64_t>(t * t) * 7) % 512);
    return static_cast<int64_t>(out.size());
  });
}

int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssAnon:", 0) == 0) return std::stoll(line.substr(8)) * 1024;
  return 0;
}

// The most that the process takes while this lives.
class Peak {
 public:
  Peak() : thread_([this] { watch(); }) {}
  int64_t stop() {
    over_ = true;
    thread_.join();
    return bytes_;
  }

 private:
  void watch() {
    while (!over_) {
      bytes_ = std::max(bytes_, anonymous_bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  std::atomic<bool> over_{false};
  int64_t bytes_ = 0;
  std::thread thread_;
};

int64_t state_bytes(const Program& p, const std::set<Role>& roles) {
  int64_t bytes = 0;
  for (const Buffer& f : p.buffers)
    if (f.state && roles.contains(p[p.kind(f.kind).values.at(0)].role))
      bytes += p.kind(f.kind).bytes;
  return bytes;
}

void expect_formulas(const Program& p, const compile::MemoryPlan& m, int64_t zero,
                     double sum_bytes) {
  const auto shards = static_cast<double>(ranks().size());
  constexpr double kPadding = 0.002;  // buffers are multiples of shards x 64 elements
  const auto divided = [&](int64_t from, double bytes) {
    return kParameters * bytes / (zero >= from ? shards : 1);
  };
  const auto near = [&](int64_t found, double wanted, const char* what) {
    EXPECT_NEAR(static_cast<double>(found), wanted, kPadding * wanted) << what;
  };
  near(state_bytes(p, {Role::kWeight}), divided(3, 2), "weights");
  near(state_bytes(p, {Role::kMaster, Role::kMoment1, Role::kMoment2}), divided(1, 12),
       "optimizer");
  near(m.optimizer, divided(1, 12), "optimizer's line");
  // Beside what is kept: layers that are being used, at most three at a time.
  const auto within = [&](int64_t found, double kept, double in_use, const char* what) {
    EXPECT_GE(static_cast<double>(found), (1 - kPadding) * kept) << what;
    EXPECT_LE(static_cast<double>(found), (1 + kPadding) * (kept + 3 * in_use * kLayer)) << what;
  };
  within(m.weights, divided(3, 2), zero == 3 ? 2 : 0, "weights' line");
  within(m.gradients, divided(2, sum_bytes), zero >= 2 ? sum_bytes : 0, "gradients' line");
}

// Returns the activations' line.
int64_t expect_promises(int64_t zero, const std::string& recompute,
                        compile::GradAccumDType gradients = compile::GradAccumDType::kF32) {
  const config::RunConfig c = config_of(zero, recompute, gradients);
  const int64_t before = anonymous_bytes();
  Peak peak;
  train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                         INT64_MAX, ranks(), {});
  trainer.engine().touch();
  trainer.initialize();
  data::BatchSource source = batches(c, trainer.data_rank());
  EXPECT_TRUE(trainer.step(1, 1e-3, source).finite);
  const int64_t taken = peak.stop() - before;
  const Program& p = trainer.program();
  const compile::MemoryPlan m = compile::memory_plan(p);
  EXPECT_EQ(trainer.engine().arena_bytes(), m.arena);
  EXPECT_EQ(m.weights + m.optimizer + m.gradients + m.activations + m.other, m.arena);
  EXPECT_GE(m.other, 0);
  EXPECT_LE(m.live, m.arena);
  EXPECT_LE(taken, m.arena + train::kOutsideBytes);
  EXPECT_GE(static_cast<double>(taken), 0.95 * static_cast<double>(m.arena));
  expect_formulas(p, m, zero, gradients == compile::GradAccumDType::kF32 ? 4 : 2);
  if (ranks().rank() == 0)
    fmt::print(
        "ZeRO {} recompute {:9}: arena {:6.1f} MB = weights {:.1f} + optimizer {:.1f} + "
        "gradients {:.1f} + activations {:.1f} + other {:.1f}; the process took {:.1f}\n",
        zero, recompute, 1e-6 * static_cast<double>(m.arena), 1e-6 * static_cast<double>(m.weights),
        1e-6 * static_cast<double>(m.optimizer), 1e-6 * static_cast<double>(m.gradients),
        1e-6 * static_cast<double>(m.activations), 1e-6 * static_cast<double>(m.other),
        1e-6 * static_cast<double>(taken));
  return m.activations;
}

class EveryStage : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(MemoryOverRanks, EveryStage, ::testing::Values(0, 1, 2, 3));

TEST_P(EveryStage, TakesWhatThePlanSays) {
  const int64_t none = expect_promises(GetParam(), "none");
  const int64_t selective = expect_promises(GetParam(), "selective");
  const int64_t full = expect_promises(GetParam(), "full");
  EXPECT_LT(selective, none);
  EXPECT_LT(full, selective);
  expect_promises(GetParam(), "none", compile::GradAccumDType::kWeight);
}

TEST(MemoryOverRanks, AHostHoldsAllItsRanks) {
  const int64_t n = ranks().size(), need = 1000 + ranks().rank(), all = 1000 * n + n * (n - 1) / 2;
  EXPECT_NO_THROW(train::require_host_memory(ranks(), need, all));
  try {
    train::require_host_memory(ranks(), need, all - 1);
    ADD_FAILURE() << "a host that is too small was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(fmt::format("the {} ranks of this run on ", n)),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace tessera::testing
