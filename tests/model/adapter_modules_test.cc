// The modules that adapters can change, and how A and B of PEFT are those of Tessera.
#include "model/adapter_modules.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/presets.h"

namespace tessera::model {
namespace {

ModelConfig small(Family family) {
  ModelConfig m;
  apply_family(family, m);
  m.layers = 2;
  m.heads = 4;
  m.hidden = 8;
  m.feed_forward = 12;
  m.vocabulary = 16;
  m.context = 8;
  return m;
}

std::set<std::string> names_of(const ModelConfig& m) {
  std::set<std::string> names;
  for (const AdapterModule& a : adapter_modules(m)) {
    const std::string module = a.module();
    names.emplace(after_layer(module));
  }
  return names;
}

TEST(AdapterModules, HaveTheNamesOfPeft) {
  ModelConfig llama = small(Family::kLlama);
  llama.kv_heads = 2;
  EXPECT_EQ(
      names_of(llama),
      (std::set<std::string>{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                             "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}));
  EXPECT_EQ(names_of(small(Family::kNeox)),
            (std::set<std::string>{"attention.query_key_value", "attention.dense",
                                   "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"}));
  EXPECT_EQ(names_of(small(Family::kGpt2)),
            (std::set<std::string>{"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}));
}

TEST(AdapterModules, AreNamedByTheirLastComponents) {
  EXPECT_TRUE(names_module("q_proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(names_module("self_attn.q_proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(names_module("proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(names_module("mlp.experts.down_proj", "model.layers.0.mlp.experts.down_proj"));
  EXPECT_TRUE(names_module("experts.down_proj", "model.layers.0.mlp.experts.down_proj"));
  EXPECT_FALSE(names_module("down_proj", "model.layers.0.mlp.experts.down_proj"));
  EXPECT_TRUE(names_module("down_proj", "model.layers.0.mlp.shared_experts.down_proj"));
  EXPECT_EQ(after_layer("model.layers.12.mlp.up_proj"), "mlp.up_proj");
  EXPECT_EQ(without_layer("layer12.mlp.up.weight"), "layer.mlp.up.weight");
  EXPECT_EQ(without_layer("embed.weight"), "embed.weight");
}

// The key's rows of a weight [K, G+2, D, F] are a tensor of their own.
TEST(AdapterModules, DescribeTheirMatrices) {
  ModelConfig m = small(Family::kLlama);
  m.kv_heads = 2;
  for (const AdapterModule& a : adapter_modules(m)) {
    if (a.module() != "model.layers.1.self_attn.k_proj") continue;
    EXPECT_EQ(a.ours(), "layer1.attn.qkv.k");
    EXPECT_EQ(a.a(3).ours, "layer1.attn.qkv.k.lora_a");
    EXPECT_EQ(a.a(3).shape, Shape({3, 8}));
    EXPECT_EQ(a.b(3).shape, Shape({2, 1, 2, 3}));
    EXPECT_EQ(a.b(3).their_shape, Shape({4, 3}));
    EXPECT_EQ(a.magnitude().their_shape, Shape({4}));
    return;
  }
  FAIL() << "no k_proj";
}

// Layers of two widths have weights of one name, whose sizes differ.
TEST(AdapterModules, OfWideLayersHaveTheirWidth) {
  for (const int64_t wide : {0, 1}) {
    ModelConfig m = small(Family::kNeox);
    m.wide_layers = {wide};
    m.wide_feed_forward = 20;
    std::map<std::string, int64_t> outputs;
    for (const AdapterModule& a : adapter_modules(m)) {
      outputs[a.ours()] = a.part.count;
      EXPECT_EQ(a.b(3).shape[0], a.part.count) << a.ours();
    }
    EXPECT_EQ(outputs.at(wide == 0 ? "layer0.mlp.up" : "layer1.mlp.up"), 20);
    EXPECT_EQ(outputs.at(wide == 0 ? "layer1.mlp.up" : "layer0.mlp.up"), 12);
  }
}

// GPT-2's weight is transposed in transformers, but its adapters are not.
TEST(AdapterModules, OfGpt2HaveTheOutputsFirst) {
  const AdapterModule a = adapter_modules(small(Family::kGpt2)).front();
  EXPECT_EQ(a.module(), "transformer.h.0.attn.c_attn");
  EXPECT_EQ(a.b(3).their_shape, Shape({24, 3}));
  EXPECT_EQ(a.b(3).view, Shape({3, 4, 2, 3}));  // q, k, v; heads; width; rank
  EXPECT_EQ(a.b(3).axes, (std::vector<int>{1, 0, 2, 3}));
}

ModelConfig small_experts(Family family) {
  ModelConfig m = small(family);
  m.kv_heads = 2;
  m.experts = 3;
  m.experts_per_token = 2;
  m.expert_feed_forward = 5;
  return m;
}

// Files have a tensor per expert; PEFT's adapters are those of two parameters per layer.
TEST(AdapterModules, OfExpertsAreTwoForEachLayer) {
  for (const Family family : {Family::kMixtral, Family::kQwen3Moe, Family::kGptOss}) {
    std::vector<std::string> modules;
    for (const AdapterModule& a : adapter_modules(small_experts(family)))
      if (a.experts > 0) modules.push_back(a.module() + " " + a.ours());
    EXPECT_EQ(modules, (std::vector<std::string>{
                           "model.layers.0.mlp.experts.gate_up_proj layer0.mlp.experts.up",
                           "model.layers.0.mlp.experts.down_proj layer0.mlp.experts.down",
                           "model.layers.1.mlp.experts.gate_up_proj layer1.mlp.experts.up",
                           "model.layers.1.mlp.experts.down_proj layer1.mlp.experts.down"}));
  }
}

// Element (e, i, p, r) of our B is row p · I + i, or 2i + p in gpt-oss, and column r · E + e of
// PEFT's, as ParamWrapper reads it.
TEST(AdapterModules, OfExpertsHaveTheOrderOfPeft) {
  constexpr int64_t kE = 3, kI = 5, kRank = 2;
  for (const Family family : {Family::kQwen3Moe, Family::kGptOss})
    for (const AdapterModule& m : adapter_modules(small_experts(family))) {
      if (m.experts == 0) continue;
      const bool up = m.ours().ends_with("up");
      const HfTensor a = m.a(kRank), b = m.b(kRank);
      EXPECT_EQ(a.shape, Shape({kE, kRank, up ? 8 : kI}));
      EXPECT_EQ(a.their_shape, Shape({kE * kRank, up ? 8 : kI}));
      EXPECT_EQ(a.axes, (std::vector<int>{0, 1, 2}));
      const int64_t rows = up ? 2 * kI : 8;
      EXPECT_EQ(b.their_shape, Shape({rows, kRank * kE}));
      ASSERT_EQ(b.part(), b.shape);
      // The stride of each of our dimensions in their matrix.
      const int64_t columns = kRank * kE;
      std::vector<int64_t> strides;
      for (const int axis : b.axes) strides.push_back(b.view.product(axis + 1, b.view.rank()));
      if (!up)
        EXPECT_EQ(strides, (std::vector<int64_t>{1, columns, kE}));
      else if (family == Family::kGptOss)
        EXPECT_EQ(strides, (std::vector<int64_t>{1, 2 * columns, columns, kE}));
      else
        EXPECT_EQ(strides, (std::vector<int64_t>{1, columns, kI * columns, kE}));
    }
}

}  // namespace
}  // namespace tessera::model
