// Layers of several kinds in one model. How layers are divided into blocks must not change what is
// computed: a model whose kinds are configured alike equals the model of one kind, bit for bit.
#include <fmt/ranges.h>

#include <map>

#include "base/error.h"
#include "compile/compile.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

struct Trained {
  Curve curve;
  std::map<std::string, std::vector<std::byte>> state;
};

Trained trained(const config::RunConfig& c, data::BatchSource source) {
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  trainer.initialize();
  Trained out;
  for (int64_t s = 1; s <= 3; ++s) {
    const StepResult r = trainer.step(s, 1e-2, source);
    EXPECT_TRUE(r.finite);
    out.curve.losses.push_back(r.loss);
    out.curve.norms.push_back(r.grad_norm);
  }
  for (const checkpoint::StateTensor& t : trainer.state()) {
    const auto* bytes = static_cast<const std::byte*>(t.data.data);
    auto& all = out.state[t.name];
    all.insert(all.end(), bytes, bytes + t.data.shape.elements() * size_of(t.dtype));
  }
  return out;
}

void expect_same_bits(const Trained& a, const Trained& b, const std::string& what) {
  EXPECT_EQ(a.curve.losses, b.curve.losses) << what;
  EXPECT_EQ(a.curve.norms, b.curve.norms) << what;
  EXPECT_EQ(a.state.size(), b.state.size()) << what;
  for (const auto& [name, bytes] : a.state)
    EXPECT_TRUE(b.state.contains(name) && b.state.at(name) == bytes) << what << ": " << name;
}

config::RunConfig five_layers(model::Family family) {
  config::RunConfig c = tiny(family);
  c.model.layers = 5;
  c.model.dropout = c.model.attention_dropout = 0.1;
  return c;
}

// The same model as two blocks, one of the layers listed.
config::RunConfig divided(config::RunConfig c, std::vector<int64_t> listed) {
  c.model.wide_layers = std::move(listed);
  c.model.wide_feed_forward = c.model.feed_forward;
  return c;
}

// The name of a matrix of a layer's MLP or experts.
std::string matrix_of(const config::RunConfig& c, int64_t layer, const char* name) {
  return fmt::format("layer{}.mlp.{}{}.weight", layer, c.model.experts > 0 ? "experts." : "", name);
}

size_t stacks(const config::RunConfig& c) {
  size_t n = 0;
  for (const Block& b : model::forward(c.model, 1, 8).blocks) n += b.is_stack();
  return n;
}

class Stacks : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Trainer, Stacks, testing::ValuesIn(every_decoder()));

TEST_P(Stacks, KindsConfiguredAlikeAreOneKind) {
  const config::RunConfig one = five_layers(GetParam());
  const Trained wanted = trained(one, batches(one));
  EXPECT_TRUE(wanted.state.contains(matrix_of(one, 4, "up")));
  for (const std::vector<int64_t>& listed : {std::vector<int64_t>{1, 3}, {0, 1}, {0, 2, 3, 4}}) {
    const config::RunConfig two = divided(one, listed);
    ASSERT_EQ(stacks(two), 2U);
    expect_same_bits(wanted, trained(two, batches(two)), fmt::format("{}", fmt::join(listed, ",")));
  }
}

// Whatever works on layers by number, kind by kind or over all of them.
TEST_P(Stacks, KindsConfiguredAlikeAreOneKindWithEveryOption) {
  using Change = void (*)(config::RunConfig&);
  const std::pair<const char*, Change> changes[] = {
      {"selective", [](config::RunConfig& c) { c.layout.recompute = "selective"; }},
      {"full", [](config::RunConfig& c) { c.layout.recompute = "full"; }},
      {"full:2", [](config::RunConfig& c) { c.layout.recompute = "full:2"; }},
      {"offload",
       [](config::RunConfig& c) {
         c.layout.offload = "activations:2";
         c.compiler.poison = true;
       }},
      {"adafactor", [](config::RunConfig& c) { c.optimizer.kind = OptimizerKind::kAdafactor; }},
      {"freeze", [](config::RunConfig& c) { c.optimizer.freeze = {"layer.mlp.*"}; }},
      {"lora", [](config::RunConfig& c) { c.lora.rank = 4; }},
      {"bf16", [](config::RunConfig& c) { c.precision = compile::Precision::kBf16; }},
  };
  for (const auto& [what, change] : changes) {
    config::RunConfig one = five_layers(GetParam());
    change(one);
    const config::RunConfig two = divided(one, {1, 3});
    expect_same_bits(trained(one, batches(one)), trained(two, batches(two)), what);
  }
}

TEST_P(Stacks, AnotherWidthIsAnotherModel) {
  const config::RunConfig one = five_layers(GetParam());
  config::RunConfig two = divided(one, {0, 3});
  two.model.wide_feed_forward = one.model.feed_forward / 2;
  const Trained narrow = trained(two, batches(two));
  EXPECT_NE(narrow.curve.losses, trained(one, batches(one)).curve.losses);
  const auto bytes = [&](int64_t layer) {
    return narrow.state.at(matrix_of(one, layer, "down")).size();
  };
  EXPECT_EQ(2 * bytes(0), bytes(1));
  EXPECT_EQ(bytes(0), bytes(3));
}

// Every token at position 0, where the rotary embedding is the identity.
data::BatchSource at_position_zero(const config::RunConfig& c) {
  return {config::batch_shape(c, 0), [](int64_t sample, const data::SampleRow& row) {
            for (size_t t = 0; t < row.labels.size(); ++t) {
              const auto id = [&](size_t place) {
                return static_cast<int32_t>((sample * 31 + static_cast<int64_t>(place) * 7) % 96);
              };
              row.tokens[t] = id(t);
              row.labels[t] = id(t + 1);
              row.positions[t] = 0;
              row.documents[t] = 0;
            }
          }};
}

class NoRope : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(Trainer, NoRope,
                         testing::Values(model::Family::kNeox, model::Family::kLlama,
                                         model::Family::kQwen2));

TEST_P(NoRope, IsTheIdentityAtPositionZero) {
  const config::RunConfig rope = five_layers(GetParam());
  config::RunConfig mixed = rope;
  mixed.model.no_rope_layers = {1, 3};
  ASSERT_EQ(stacks(mixed), 2U);
  expect_same_bits(trained(rope, at_position_zero(rope)), trained(mixed, at_position_zero(mixed)),
                   "at position 0");
  EXPECT_NE(trained(rope, batches(rope)).curve.losses, trained(mixed, batches(mixed)).curve.losses);
}

}  // namespace
}  // namespace tessera::train
