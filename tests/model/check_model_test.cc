#include "model/check_model.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "model/presets.h"

namespace tessera::model {
namespace {

std::string fault(const char* preset, const std::function<void(ModelConfig&)>& change) {
  ModelConfig m;
  EXPECT_TRUE(apply_preset(preset, m));
  derive_sizes(m);
  change(m);
  try {
    check_model(m);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CheckModel, TakesEveryPreset) {
  for (const std::string& name : preset_names())
    EXPECT_EQ(fault(name.c_str(), [](ModelConfig&) {}), "") << name;
}

TEST(CheckModel, L5_NamesTheKeyOfWhatCannotBe) {
  const int64_t huge = int64_t{1} << 53;
  struct Case {
    const char *preset, *key;
    std::function<void(ModelConfig&)> change;
  };
  const Case cases[] = {
      {"pythia-70m", "layers", [](auto& m) { m.layers = 0; }},
      {"pythia-70m", "layers", [](auto& m) { m.layers = 20'000; }},
      {"pythia-70m", "hidden", [](auto& m) { m.hidden = 0; }},
      {"pythia-70m", "hidden", [&](auto& m) { m.hidden = huge; }},
      {"pythia-70m", "heads", [](auto& m) { m.heads = 0; }},
      {"pythia-70m", "heads", [](auto& m) { m.heads = m.kv_heads = 7; }},
      {"pythia-70m", "kv_heads", [](auto& m) { m.kv_heads = 4; }},
      {"pythia-70m", "kv_heads", [](auto& m) { m.kv_heads = -3; }},
      {"llama3-8b", "kv_heads", [](auto& m) { m.kv_heads = 5; }},
      {"pythia-70m", "head_width", [](auto& m) { m.head_width = -1; }},
      {"pythia-70m", "head_width", [&](auto& m) { m.head_width = huge - huge % 8; }},
      {"pythia-70m", "head_width", [](auto& m) { m.head_width = int64_t{1} << 31; }},
      {"pythia-70m", "vocabulary_multiple",
       [](auto& m) { m.vocabulary_multiple = int64_t{1} << 32; }},
      {"pythia-70m", "feed_forward", [](auto& m) { m.feed_forward = -16; }},
      {"pythia-70m", "vocabulary", [](auto& m) { m.vocabulary = -1; }},
      {"pythia-70m", "vocabulary_multiple", [](auto& m) { m.vocabulary_multiple = 0; }},
      {"pythia-70m", "context", [](auto& m) { m.context = 0; }},
      {"pythia-70m", "context", [&](auto& m) { m.context = huge; }},
      {"pythia-70m", "encoder_layers", [](auto& m) { m.encoder_layers = 1; }},
      {"mt5-small", "encoder_layers", [](auto& m) { m.encoder_layers = 0; }},
      {"mt5-small", "relative_buckets", [](auto& m) { m.relative_buckets = 0; }},
      {"mt5-small", "relative_distance", [](auto& m) { m.relative_distance = 16; }},
      {"mt5-small", "relative_distance", [&](auto& m) { m.relative_distance = huge; }},
      {"pythia-70m", "rotary_pct", [](auto& m) { m.rotary_pct = 0.01; }},
      {"pythia-70m", "rotary_pct", [](auto& m) { m.rotary_pct = 1e300; }},
      {"pythia-70m", "rope_theta", [](auto& m) { m.rope_theta = 0; }},
      {"llama3.1-8b", "rope_scaling.factor", [](auto& m) { m.rope_scaling.factor = 0; }},
      {"llama3.1-8b", "rope_scaling.low_freq_factor", [](auto& m) { m.rope_scaling.low_freq_factor = -1; }},
      {"llama3.1-8b", "rope_scaling.high_freq_factor", [](auto& m) { m.rope_scaling.high_freq_factor = 1; }},
      {"llama3.1-8b", "rope_scaling.original_max_position_embeddings", [](auto& m) { m.rope_scaling.original_max_position_embeddings = 0; }},
      {"llama3.1-8b", "rope_scaling.beta_slow", [](auto& m) { m.rope_scaling.beta_slow = 0; }},
      {"llama3.1-8b", "rope_scaling.beta_fast", [](auto& m) { m.rope_scaling.beta_fast = 1; }},
      {"llama3.1-8b", "rope_scaling.attention_factor", [](auto& m) { m.rope_scaling.attention_factor = 1.5; }},
      {"llama3.1-8b", "rope_scaling.short_factor",
       [](auto& m) { m.rope_scaling.short_factor = {1}; }},
      {"phi3-mini-4k", "rope_scaling.short_factor",
       [](auto& m) { m.rope_scaling.rope_type = RopeType::kLongrope; }},
      {"phi3-mini-4k", "rope_scaling.long_factor",
       [](auto& m) {
         m.rope_scaling.rope_type = RopeType::kLongrope;
         m.rope_scaling.short_factor.assign(48, 1.5);
         m.rope_scaling.long_factor.assign(48, -1);
       }},
      {"llama3.1-8b", "context", [](auto& m) { m.rope_scaling.rope_type = RopeType::kDynamic; }},
      {"mistral-7b-v0.1", "window", [](auto& m) { m.window = -1; }},
      {"llama3-8b", "window_layers", [](auto& m) { m.window_layers = {1}; }},
      {"gemma2-2b", "window_layers", [](auto& m) { m.window_layers = {26}; }},
      {"mt5-small", "window", [](auto& m) { m.window = 16; }},
      {"mt5-small", "logit_soft_cap", [](auto& m) { m.logit_soft_cap = 30; }},
      {"gemma2-2b", "attention_soft_cap", [](auto& m) { m.attention_soft_cap = -1; }},
      {"gemma2-2b", "attention_scalar", [](auto& m) { m.attention_scalar = 1e300; }},
      {"llama3-8b", "window_rope_theta", [](auto& m) { m.window_rope_theta = 10000; }},
      {"pythia-70m", "no_rope_layers", [](auto& m) { m.no_rope_layers = {6}; }},
      {"pythia-70m", "no_rope_layers", [](auto& m) { m.no_rope_layers = {-1}; }},
      {"pythia-70m", "no_rope_layers",
       [](auto& m) {
         m.no_rope_layers = {1, 1, 1, 0};
       }},
      {"gpt2", "no_rope_layers", [](auto& m) { m.no_rope_layers = {1}; }},
      {"mt5-small", "no_rope_layers", [](auto& m) { m.no_rope_layers = {1}; }},
      {"mt5-small", "wide_layers",
       [](auto& m) {
         m.wide_layers = {1};
         m.wide_feed_forward = 64;
       }},
      {"pythia-70m", "wide_layers",
       [](auto& m) {
         m.wide_layers = {2, 1};
       }},
      {"pythia-70m", "wide_feed_forward", [](auto& m) { m.wide_layers = {1}; }},
      {"pythia-70m", "wide_feed_forward", [](auto& m) { m.wide_feed_forward = 64; }},
      {"pythia-70m", "hidden",
       [&](auto& m) {
         m.wide_layers = {1};
         m.wide_feed_forward = huge;
       }},
      {"pythia-70m", "experts", [](auto& m) { m.experts = 8; }},
      {"pythia-70m", "experts", [](auto& m) { m.expert_feed_forward = 64; }},
      {"mixtral-8x7b", "experts", [](auto& m) { m.experts = 0; }},
      {"mixtral-8x7b", "experts", [](auto& m) { m.experts = -1; }},
      {"mixtral-8x7b", "experts_per_token", [](auto& m) { m.experts_per_token = 9; }},
      {"mixtral-8x7b", "experts_per_token", [](auto& m) { m.experts_per_token = 0; }},
      {"mixtral-8x7b", "expert_feed_forward", [](auto& m) { m.expert_feed_forward = -1; }},
      {"mixtral-8x7b", "dense_layers", [](auto& m) { m.dense_layers = {32}; }},
      {"mixtral-8x7b", "router.groups", [](auto& m) { m.router.groups = 3; }},
      {"mixtral-8x7b", "router.groups_chosen", [](auto& m) { m.router.groups_chosen = 2; }},
      {"mixtral-8x7b", "router.scale", [](auto& m) { m.router.scale = 0; }},
      {"pythia-70m", "router.capacity_factor", [](auto& m) { m.router.capacity_factor = 1; }},
      {"pythia-70m", "router.z_loss", [](auto& m) { m.router.z_loss = 1e-3; }},
      {"mixtral-8x7b", "router.capacity_factor", [](auto& m) { m.router.capacity_factor = -1; }},
      {"mixtral-8x7b", "router.capacity_factor", [](auto& m) { m.router.capacity_factor = 1e7; }},
      {"mixtral-8x7b", "router.capacity_factor", [](auto& m) { m.router.capacity_factor = std::nan(""); }},
      {"mixtral-8x7b", "experts_per_token",
       [](auto& m) {
         m.router.groups = 4;
         m.experts_per_token = 3;
       }},
      {"mixtral-8x7b", "hidden", [&](auto& m) { m.experts = 1 << 24; }},
      {"pythia-70m", "norm_epsilon", [](auto& m) { m.norm_epsilon = 0; }}};
  for (const Case& c : cases) {
    const std::string said = fault(c.preset, c.change);
    EXPECT_TRUE(said.starts_with(std::string("model.") + c.key + " ")) << c.key << ": " << said;
  }
}

}  // namespace
}  // namespace tessera::model
