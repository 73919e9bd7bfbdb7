// Optimizer state in the host's memory, on several ranks: every layout trains to the same bits as
// with the state on the device, and a state read by the one is that of the other.
#include <gtest/gtest.h>

#include <cstring>

#include "model/presets.h"
#include "tests/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/run_programs.h"
#include "train/trainer.h"

namespace tessera::testing {
namespace {

constexpr int64_t kTokens = 24;

config::RunConfig config_of(compile::Precision precision, OptimizerKind kind) {
  config::RunConfig c;
  model::apply_family(model::Family::kLlama, c.model);
  c.model.layers = 4;
  c.model.hidden = 32;
  c.model.heads = c.model.kv_heads = 4;
  c.model.vocabulary = 96;
  c.model.vocabulary_multiple = 32;
  c.model.context = kTokens;
  model::derive_sizes(c.model);
  c.data.sequence_length = kTokens;
  c.batch.micro = 1;
  c.batch.global = 8;
  c.precision = precision;
  c.optimizer.kind = kind;
  c.compiler.poison = true;
  c.run.seed = 5;
  return c;
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::pair<std::string, std::vector<std::byte>>> state;
  int64_t state_bytes = 0, host_bytes = 0;
};

std::unique_ptr<train::Trainer> trainer_of(const config::RunConfig& c) {
  return std::make_unique<train::Trainer>(
      c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1), INT64_MAX, ranks(),
      std::function<double()>());
}

void add_steps(train::Trainer& trainer, const config::RunConfig& c, int64_t first, Trained& out) {
  data::BatchSource source = train::batches(c, trainer.data_rank());
  for (int64_t s = first; s < first + 2; ++s)
    out.losses.push_back(trainer.step(s, 1e-3, source).loss);
}

// All that this rank holds of the state, replicas too.
std::vector<std::pair<std::string, TensorView>> views(train::Trainer& trainer) {
  std::vector<std::pair<std::string, TensorView>> all;
  for (const StateShard& x : local_state(trainer.program(), trainer.engine().position().at))
    all.emplace_back(x.name, trainer.engine().view(x));
  return all;
}

void add_state(train::Trainer& trainer, Trained& out) {
  for (const auto& [name, view] : views(trainer)) {
    const auto* bytes = view.as<std::byte>();
    out.state.emplace_back(name, std::vector<std::byte>(bytes, bytes + view.bytes()));
  }
  out.state_bytes = trainer.program().state_bytes;
  out.host_bytes = trainer.program().host_bytes;
}

// Two steps, then two more in a second trainer that begins with the state of the first.
Trained trained(config::RunConfig c, const std::string& first, const std::string& second) {
  Trained out;
  c.layout.offload = first;
  const auto before = trainer_of(c);
  before->initialize();
  add_steps(*before, c, 1, out);
  c.layout.offload = second;
  const auto after = trainer_of(c);
  after->initialize();
  const auto from = views(*before), to = views(*after);
  EXPECT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].first, to[i].first);
    const auto bytes = static_cast<size_t>(from[i].second.bytes());
    std::memcpy(to[i].second.data, from[i].second.data, bytes);
  }
  after->engine().round_weights();
  add_steps(*after, c, 3, out);
  add_state(*after, out);
  return out;
}

void expect_same_bits(const config::RunConfig& c) {
  const Trained kept = trained(c, "none", "none");
  for (const auto& [first, second] :
       {std::pair("optimizer", "optimizer"), std::pair("none", "activations+optimizer"),
        std::pair("optimizer", "none")}) {
    const Trained other = trained(c, first, second);
    EXPECT_EQ(kept.losses, other.losses) << first << ' ' << second;
    EXPECT_EQ(kept.state, other.state) << first << ' ' << second;
    if (std::string(second) != "optimizer") continue;
    EXPECT_GT(other.host_bytes, 0);
    EXPECT_EQ(kept.state_bytes - other.state_bytes, other.host_bytes);
  }
}

class EveryZero : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(HostState, EveryZero, ::testing::Values(0, 1, 2, 3));

TEST_P(EveryZero, DataRanksHaveTheSameBits) {
  config::RunConfig c = config_of(compile::Precision::kBf16, OptimizerKind::kAdamW);
  c.layout.data = ranks().size();
  c.layout.zero = GetParam();
  expect_same_bits(c);
  c = config_of(compile::Precision::kFp32, OptimizerKind::kLion);
  c.layout.data = ranks().size();
  c.layout.zero = GetParam();
  c.optimizer.freeze = {"embed.*"};
  expect_same_bits(c);
}

TEST(HostState, TensorRanksHaveTheSameBits) {
  for (const int64_t adapters : {0, 4}) {
    config::RunConfig c = config_of(compile::Precision::kBf16, OptimizerKind::kAdafactor);
    c.layout.tensor = ranks().size();
    c.model.layers = 2;
    c.batch.global = 2;
    c.lora.rank = adapters;
    expect_same_bits(c);
  }
}

TEST(HostState, StagesHaveTheSameBits) {
  for (const compile::PipelineSchedule schedule :
       {compile::PipelineSchedule::k1F1B, compile::PipelineSchedule::kZeroBubble}) {
    config::RunConfig c = config_of(compile::Precision::kBf16, OptimizerKind::kSgd);
    c.layout.pipeline = ranks().size();
    c.layout.pipeline_schedule = schedule;
    expect_same_bits(c);
  }
}

}  // namespace
}  // namespace tessera::testing
