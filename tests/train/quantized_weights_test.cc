// Adapters on weights in 4 bits (QLoRA): what is stored, and what is trained.
#include "train/quantized_weights.h"

#include <gtest/gtest.h>

#include <map>

#include "base/nf4.h"
#include "checkpoint/async_save.h"
#include "compile/memory/memory_plan.h"
#include "kernels/nf4.h"
#include "model/weight_names.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/train/quantized_run.h"

namespace tessera::train {
namespace {

std::unique_ptr<Trainer> trainer_of(const config::RunConfig& c, comm::World& world) {
  return std::make_unique<Trainer>(
      c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX, world,
      std::function<double()>());
}

using Bytes = std::map<std::string, std::vector<std::byte>>;
Bytes state_of(Trainer& trainer) {
  Bytes all;
  for (const checkpoint::StateTensor& t : trainer.state()) {
    const auto* data = t.data.as<std::byte>();
    all[t.name] = std::vector<std::byte>(data, data + t.data.bytes());
  }
  return all;
}

checkpoint::CheckpointHeader header_of(const config::RunConfig& c) {
  checkpoint::CheckpointHeader header;
  header.config = to_tree(c);
  header.model = to_tree(c.model);
  header.state = Tree::object();
  header.version = "test";
  return header;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> x(bytes.size() / sizeof(float));
  std::memcpy(x.data(), bytes.data(), bytes.size());
  return x;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& x) {
  const auto* data = reinterpret_cast<const std::byte*>(x.data());
  return {data, data + x.size() * sizeof(T)};
}

TEST(QuantizedWeights, AreThoseOfTheInitialWeights) {
  config::RunConfig c = quantized(model::Family::kNeox);
  const auto world = comm::self_world();
  const auto small = trainer_of(c, *world);
  small->initialize();
  const Bytes stored = state_of(*small);
  c.lora.quantize = compile::Quantization::kNone;
  const auto large = trainer_of(c, *world);
  large->initialize();
  int quantized = 0;
  for (const auto& [name, bytes] : state_of(*large)) {
    const std::string codes = model::quantized_name(name, "", model::kNf4Codes);
    if (!stored.contains(codes)) {
      EXPECT_EQ(stored.at(name), bytes) << name;
      continue;
    }
    ++quantized;
    EXPECT_FALSE(stored.contains(name)) << name;
    const std::vector<float> w = floats(bytes);
    const auto blocks = static_cast<int64_t>(w.size()) / kNf4Block;
    std::vector<uint8_t> expected(w.size() / 2), scales(blocks);
    std::vector<float> levels(nf4_levels(blocks));
    kernels::quantize_nf4(w, expected, scales, levels, 1);
    EXPECT_EQ(stored.at(codes), bytes_of(expected)) << name;
    EXPECT_EQ(stored.at(model::quantized_name(name, "", model::kNf4Scales)), bytes_of(scales));
    EXPECT_EQ(stored.at(model::quantized_name(name, "", model::kNf4Levels)), bytes_of(levels));
  }
  EXPECT_EQ(quantized, 2 * 4);  // of each layer: attn.qkv, attn.out, mlp.up, mlp.down
}

// A run on quantized weights has the losses of one that starts from its checkpoint with dequantized
// weights. Only adapters are trained.
void expect_training_of_dequantized(config::RunConfig c) {
  checkpoint::TemporaryFolder folder;
  const auto world = comm::self_world();
  const auto small = trainer_of(c, *world);
  small->initialize();
  checkpoint::save(folder.path(), header_of(c), small->state());
  const Bytes before = state_of(*small);
  c.lora.quantize = compile::Quantization::kNone;
  const auto large = trainer_of(c, *world);
  checkpoint::CheckpointReader reader(folder.path() / "0");
  large->load(reader, config::Load::kWeights);
  data::BatchSource a = batches(c), b = batches(c);
  for (int s = 1; s <= 4; ++s) {
    const StepResult stored = small->step(s, 1e-2, a), plain = large->step(s, 1e-2, b);
    EXPECT_NEAR(stored.loss, plain.loss, 2e-6 * plain.loss) << s;
    EXPECT_NEAR(stored.grad_norm, plain.grad_norm, 2e-5 * plain.grad_norm) << s;
  }
  for (const auto& [name, bytes] : state_of(*small))
    EXPECT_EQ(bytes != before.at(name), name.find(".lora_") != name.npos) << name;
  if (c.model.experts > 0) return;  // experts are not quantized
  EXPECT_LT(compile::memory_plan(small->program()).weights,
            compile::memory_plan(large->program()).weights / 2);
}

class EveryFamilyQuantized : public testing::TestWithParam<model::Family> {};
INSTANTIATE_TEST_SUITE_P(QuantizedWeights, EveryFamilyQuantized,
                         testing::ValuesIn(quantizable_families()));

TEST_P(EveryFamilyQuantized, TrainAsDequantizedWeights) {
  expect_training_of_dequantized(quantized(GetParam()));
}

TEST(QuantizedWeights, OfLayersOfTwoWidths) {
  for (const model::Family family :
       {model::Family::kNeox, model::Family::kGpt2, model::Family::kLlama})
    for (const int64_t layer : {0, 1}) {
      config::RunConfig c = quantized(family);
      c.model.wide_layers = {layer};
      c.model.wide_feed_forward = 384;
      expect_training_of_dequantized(c);
    }
}

// DoRA's magnitudes start as the norms of the dequantized weights, so that the first step computes
// the same as without adapters; from random weights and from those of a checkpoint.
TEST(QuantizedWeights, DoraStartsAsTheDequantizedWeights) {
  config::RunConfig c = quantized(model::Family::kLlama);
  checkpoint::TemporaryFolder folder;
  const auto world = comm::self_world();
  config::RunConfig base = c;
  base.lora = {};
  const auto plain = trainer_of(base, *world);
  plain->initialize();
  checkpoint::save(folder.path(), header_of(base), plain->state());
  for (const bool loaded : {false, true}) {
    std::vector<double> losses;
    for (const compile::AdapterKind kind :
         {compile::AdapterKind::kLora, compile::AdapterKind::kDora}) {
      c.lora.kind = kind;
      const auto trainer = trainer_of(c, *world);
      checkpoint::CheckpointReader reader(folder.path() / "0");
      if (loaded)
        trainer->load(reader, config::Load::kWeights);
      else
        trainer->initialize();
      data::BatchSource source = batches(c);
      losses.push_back(trainer->step(1, 1e-2, source).loss);
      EXPECT_LT(trainer->step(1, 1e-2, source).loss, losses.back());
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-6 * losses[0]);
  }
}

TEST(QuantizedWeights, ThatCannotBeStoredAreNotAccepted) {
  const auto world = comm::self_world();
  config::RunConfig c = tiny(model::Family::kLlama);
  c.lora.rank = 2;
  c.lora.quantize = compile::Quantization::kNf4;
  EXPECT_THROW(trainer_of(c, *world), Error);  // 32 inputs
}

}  // namespace
}  // namespace tessera::train
