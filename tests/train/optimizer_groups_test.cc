// Weights with several optimizers in one run, beside runs that train the weights of each alone.
#include <cstring>
#include <map>

#include "compile/compile.h"
#include "config/run_request.h"
#include "tests/config/optimizer_groups.h"
#include "tests/train/tiny_run.h"
#include "train/trained_part.h"

namespace tessera::train {
namespace {

using State = std::map<std::string, std::vector<std::byte>>;

State state_of(Trainer& t) {
  State all;
  for (const checkpoint::StateTensor& s : t.state()) {
    std::vector<std::byte>& b = all[s.name];
    b.resize(static_cast<size_t>(s.data.bytes()));
    std::memcpy(b.data(), s.data.data, b.size());
  }
  return all;
}

std::unique_ptr<Trainer> trainer_of(const config::RunConfig& c, comm::World& world) {
  return std::make_unique<Trainer>(
      c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX, world,
      std::function<double()>());
}

// AdamW, and one group for each other kind. No clipping: its norm is that of all trained weights.
config::RunConfig grouped(model::Family family) {
  config::RunConfig c = tiny(family);
  c.optimizer.clip_norm = 0;
  std::string groups;
  const std::vector<const char*> patterns = {"embed.*", "*.mlp.*up*", "*norm*", "*.attn.*weight",
                                             "*.mlp.*"};
  for (auto pattern = patterns.begin(); const OptimizerTraits& o : kOptimizers) {
    if (o.kind == c.optimizer.kind) continue;
    groups += fmt::format(
        "{}{{match: ['{}'], kind: {}, beta1: 0.5, weight_decay: 0.2, weight_decay_applies_to: all, "
        "learning_rate_multiplier: {}}}",
        groups.empty() ? "[" : ", ", *pattern++, o.name, groups.empty() ? 0.25 : 2);
  }
  c.optimizer.groups = config::groups_of(groups + "]");
  return c;
}

// The weight that a tensor of the state belongs to.
std::string weight_of(const std::string& name) { return name.substr(0, name.find('|')); }

// DeepSeek's biases of routers follow the load of the experts. No optimizer updates them.
bool follows_load(const std::string& weight) { return weight.ends_with(".router.bias"); }

// The run that trains the weights of one group by its optimizer, as that of the whole run.
config::RunConfig alone(const config::RunConfig& c, size_t number) {
  config::RunConfig own = c;
  if (number > 0) own.optimizer = config::settings_of(c.optimizer.groups[number - 1], c.optimizer);
  own.optimizer.groups.clear();
  for (const std::string& weight :
       compile::trained_weights(config::compile_request(c, compile::ProgramKind::kTrain)))
    if (optimizer_number(c, weight) != number && !follows_load(weight))
      own.optimizer.freeze.push_back(weight);
  return own;
}

State trained(const config::RunConfig& c, double rate, int steps) {
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  trainer->engine().initialize(5);
  data::BatchSource source = batches(c);
  for (int s = 1; s <= steps; ++s) EXPECT_TRUE(trainer->step(s, rate, source).finite);
  return state_of(*trainer);
}

class GroupedFamily : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Trainer, GroupedFamily, testing::ValuesIn(every_family()));

// A step of a group is bit for bit the step of a run with its optimizer on its weights alone; in
// every precision, so with masters, bf16 moments and stochastic rounding.
TEST_P(GroupedFamily, AStepIsThatOfEachOptimizerAlone) {
  for (const compile::Precision precision :
       {compile::Precision::kFp32, compile::Precision::kBf16, compile::Precision::kBf16Sr,
        compile::Precision::kFp16}) {
    config::RunConfig c = grouped(GetParam());
    c.precision = precision;
    const State together = trained(c, 1e-2, 1);
    size_t compared = 0;
    for (size_t number = 0; number <= c.optimizer.groups.size(); ++number) {
      const double multiplier =
          number == 0 ? 1 : c.optimizer.groups[number - 1].learning_rate_multiplier;
      const State own = trained(alone(c, number), 1e-2 * multiplier, 1);
      for (const auto& [name, bytes] : together) {
        const std::string weight = weight_of(name);
        if ((follows_load(weight) ? 0 : optimizer_number(c, weight)) != number) continue;
        ++compared;
        ASSERT_TRUE(own.contains(name)) << name;
        EXPECT_TRUE(own.at(name) == bytes)
            << name << " of group " << number << ", " << name_of_entry(precision);
      }
    }
    EXPECT_EQ(compared, together.size());
  }
}

// What each optimizer keeps: moments and factors appear for the weights of its group alone.
TEST_P(GroupedFamily, EachKeepsWhatItsOptimizerNeeds) {
  const config::RunConfig c = grouped(GetParam());
  const State state = trained(c, 1e-2, 0);
  for (const auto& [name, bytes] : state) {
    if (name.find('|') != name.npos || follows_load(name)) continue;
    const OptimizerKind kind = optimizer_of(c, name).kind;
    const bool averages = kind == OptimizerKind::kScheduleFree;
    EXPECT_EQ(state.contains(name + "|moment1"), !averages) << name;  // all have a beta1
    EXPECT_EQ(state.contains(name + "|iterate"), averages) << name;
    EXPECT_EQ(state.contains(name + "|moment2"), averages || kind == OptimizerKind::kAdamW) << name;
    const auto factor = state.lower_bound(name + "|rows");
    const bool factored = factor != state.end() && factor->first.starts_with(name + "|rows");
    EXPECT_EQ(factored, kind == OptimizerKind::kAdafactor) << name;
  }
}

// Several steps, micro-batches and the clipped norm of all gradients: the same however the batch
// is divided.
TEST_P(GroupedFamily, LowersTheLossAndAddsUpMicrobatches) {
  config::RunConfig c = grouped(GetParam());
  c.optimizer.clip_norm = 1;
  c.optimizer.epsilon = 1e-5;
  c.optimizer.groups = config::groups_of(
      "[{match: ['*norm*'], kind: sgd, beta1: 0.9, learning_rate_multiplier: 4},"
      " {match: [embed.*], kind: adafactor, epsilon: 1.0e-10,"
      "  learning_rate_multiplier: 0.1}]");
  const Curve two = run(c, 24);
  EXPECT_LT(two.losses.back(), two.losses.front());
  c.batch.micro = 1;
  expect_same(two, run(c, 24), 1e-5);
}

// A step that overflows changes nothing of any group.
TEST(OptimizerGroups, AnOverflowIsSkippedByAll) {
  config::RunConfig c = grouped(model::Family::kLlama);
  c.precision = compile::Precision::kFp16;
  const auto world = comm::self_world();
  const auto trainer = trainer_of(c, *world);
  trainer->initialize();
  data::BatchSource source = batches(c);
  const State before = state_of(*trainer);
  EXPECT_FALSE(trainer->step(1, 1e-3, source, {}, 0x1p24).finite);
  EXPECT_TRUE(state_of(*trainer) == before);
  EXPECT_TRUE(trainer->step(1, 1e-3, source, {}, 64).finite);
  const State after = state_of(*trainer);
  for (const auto& [name, bytes] : after)
    if (name.find('|') == name.npos) {
      EXPECT_FALSE(bytes == before.at(name)) << name;
    }
}

// Adapters, by their own names: B alone with another rate (LoRA+).
TEST(OptimizerGroups, AdaptersMayHaveTheirOwn) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.lora.rank = 4;
  c.optimizer.groups =
      config::groups_of("[{match: ['*.lora_b'], kind: sgd, learning_rate_multiplier: 0}]");
  const State before = trained(c, 1e-2, 0), after = trained(c, 1e-2, 2);
  for (const auto& [name, bytes] : after) {
    if (name.find('|') != name.npos) continue;
    // With B at zero the gradient of A is zero, and AdamW decays it all the same.
    EXPECT_EQ(bytes != before.at(name), name.ends_with(".lora_a")) << name;
  }
}

TEST(OptimizerGroups, TheHeaderNamesThem) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.optimizer.groups = config::groups_of(
      "[{match: ['*norm*'], kind: sgd, learning_rate_multiplier: 4}, {match: ['*.mlp.*'], kind: "
      "adafactor}]");
  const double elements[] = {680e3, 20e3, 5e3};
  EXPECT_EQ(optimizer_line(c, elements),
            "optimizer adamw (0.68 M parameters), group 1 sgd (0.02 M, learning rate x 4), group 2 "
            "adafactor (0.005 M)");
  EXPECT_EQ(optimizer_number(c, "layer12.mlp.up.weight"), 2u);
  EXPECT_EQ(optimizer_number(c, "layer12.attn.qkv.weight"), 0u);
}

}  // namespace
}  // namespace tessera::train
