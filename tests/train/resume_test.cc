#include "train/resume.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "model/presets.h"
#include "tests/config/optimizer_groups.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

config::RunConfig llama() {
  config::RunConfig c;
  model::apply_family(model::Family::kLlama, c.model);
  c.model.layers = 2;
  c.run.seed = 7;
  return c;
}

// The tree without `key` of its section, as a version wrote it that did not know that key.
Tree without(const Tree& tree, std::string_view section, std::string_view key) {
  Tree out = Tree::object(), part = Tree::object();
  for (const auto& [name, value] : *tree.find(section)->as_members())
    if (name != key) part.set(name, value);
  for (const auto& [name, value] : *tree.as_members())
    out.set(name, name == section ? part : value);
  return out;
}

std::string refusal(const config::RunConfig& config, const Tree& saved) {
  try {
    accepted_changes(config, saved);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Resume, AnotherModelOrSeedIsAnotherRun) {
  const config::RunConfig before = llama();
  config::RunConfig now = before;
  EXPECT_TRUE(accepted_changes(now, to_tree(before)).empty());
  now.optimizer.learning_rate = 0.5;
  EXPECT_EQ(accepted_changes(now, to_tree(before)).size(), 1u);
  now.model.rope_theta = 500000;
  EXPECT_NE(refusal(now, to_tree(before)).find("model.rope_theta was 10000"), std::string::npos);
  now.checkpoint.allow_changes = true;
  EXPECT_EQ(accepted_changes(now, to_tree(before)).size(), 2u);
}

// A message must not advise what cannot work: weights of other shapes are never loaded.
TEST(Resume, AllowChangesIsAdvisedOnlyIfTheWeightsFit) {
  const auto advised = [](const std::function<void(model::ModelConfig&)>& change) {
    config::RunConfig before = llama();
    before.model.hidden = 64;
    before.model.heads = 4;
    before.model.vocabulary = 96;
    config::RunConfig now = before;
    change(now.model);
    const std::string why = refusal(now, to_tree(before));
    EXPECT_NE(why.find("run.directory"), std::string::npos) << why;
    return why.find("allow_changes=true") != std::string::npos;
  };
  EXPECT_TRUE(advised([](model::ModelConfig& m) { m.rope_theta = 500000; }));
  EXPECT_TRUE(advised([](model::ModelConfig& m) { m.vocabulary = 90; }));
  EXPECT_FALSE(advised([](model::ModelConfig& m) { m.vocabulary = 128; }));
  EXPECT_FALSE(advised([](model::ModelConfig& m) { m.hidden *= 2; }));
  EXPECT_FALSE(advised([](model::ModelConfig& m) { m.heads *= 2; }));
  EXPECT_FALSE(advised([](model::ModelConfig& m) { m.layers = 10; }));
}

TEST(Resume, OtherAdaptersAreAnotherRun) {
  config::RunConfig before = llama();
  before.lora.rank = 8;
  for (const auto& change : std::vector<std::function<void(config::RunConfig&)>>{
           [](config::RunConfig& c) { c.lora.rank = 0; },
           [](config::RunConfig& c) { c.lora.rank = 4; },
           [](config::RunConfig& c) { c.lora.alpha = 64; },
           [](config::RunConfig& c) { c.lora.targets = {"*.attn.*"}; }}) {
    config::RunConfig now = before;
    change(now);
    EXPECT_NE(refusal(now, to_tree(before)).find("tessera checkpoint merge"), std::string::npos);
    EXPECT_THROW(require_adapters_kept(now, to_tree(before), "other"), Error);
    now.checkpoint.allow_changes = true;
    EXPECT_EQ(refusal(now, to_tree(before)), "");
    EXPECT_NO_THROW(require_adapters_kept(now, to_tree(before), "other"));
  }
  EXPECT_NO_THROW(require_adapters_kept(before, to_tree(before), "other"));
  EXPECT_NE(refusal(before, to_tree(llama())).find("lora.rank was 0, is now 8"), std::string::npos);
  EXPECT_NO_THROW(require_adapters_kept(before, to_tree(llama()), "other"));
  config::RunConfig alpha = llama();
  alpha.lora.alpha = 64;  // of no adapter
  EXPECT_EQ(refusal(alpha, to_tree(llama())), "");
}

TEST(Resume, AKeyThatDidNotExistWasAtItsDefault) {
  config::RunConfig now = llama();
  const Tree saved = without(to_tree(now), "model", "scaled_head");
  EXPECT_TRUE(accepted_changes(now, saved).empty());
  now.model.scaled_head = false;
  EXPECT_NE(refusal(now, saved).find("model.scaled_head was true, is now false"),
            std::string::npos);
}

TEST(Resume, WhatShapesDoNotShowIsTold) {
  const Tree saved = to_tree(llama().model);
  config::RunConfig now = llama();
  now.model.dropout = 0.1;
  now.model.context = 4096;
  EXPECT_TRUE(changed_computation(now, saved).empty());
  now.model.rope_theta = 500000;
  now.model.rope_scaling.factor = 8;
  now.model.norm_epsilon = 1e-6;
  std::string told;
  for (const Change& c : changed_computation(now, saved)) told += c.path + " ";
  EXPECT_EQ(told, "model.rope_theta model.rope_scaling.factor model.norm_epsilon ");
}

// Families without RoPE ignore its keys.
TEST(Resume, KeysOfRopeAreNotToldToFamiliesWithoutIt) {
  config::RunConfig now = llama();
  model::apply_family(model::Family::kGpt2, now.model);
  const Tree saved = to_tree(now.model);
  now.model.rotary_pct = 0.5;
  now.model.rope_theta = 500000;
  now.model.rope_scaling.factor = 8;
  now.model.window_rope_theta = 5;
  EXPECT_TRUE(changed_computation(now, saved).empty());
}

// Coefficients of losses may change, but not the choice of experts and their weights.
TEST(Resume, AnotherRouterIsTold) {
  config::RunConfig now = llama();
  model::apply_family(model::Family::kMixtral, now.model);
  const Tree saved = to_tree(now.model);
  now.model.router.balance_loss = 0.1;
  now.model.router.z_loss = 0.01;
  now.model.router.bias_rate = 0.01;
  EXPECT_TRUE(changed_computation(now, saved).empty());
  now.model.experts_per_token = 1;
  now.model.dense_layers = {0};
  now.model.router.scale = 2;
  std::string told;
  for (const Change& c : changed_computation(now, saved)) told += c.path + " ";
  EXPECT_EQ(told, "model.experts_per_token model.dense_layers model.router.scale ");
}

std::string model_refusal(const config::RunConfig& config, const Tree& saved) {
  try {
    accepted_model(config, saved, "base");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Resume, B2_AContradictionWithTheCheckpointIsRefused) {
  const config::RunConfig before = [] {
    config::RunConfig c = llama();
    c.model.hidden = 64;
    c.model.heads = c.model.kv_heads = 4;
    c.model.vocabulary = 100;
    return c;
  }();
  const Tree saved = to_tree(before.model);
  config::RunConfig now = before;
  now.model.preset = "a name";
  now.model.head_width = 16;        // what it is anyway
  now.model.relative_buckets = 64;  // of t5 alone
  now.model.vocabulary = 90;        // fewer rows of the tables
  EXPECT_EQ(model_refusal(now, saved), "");
  now.model.heads = now.model.kv_heads = 8;
  now.model.head_width = 0;
  EXPECT_NE(model_refusal(now, saved).find("model.heads is 4 there, 8 in this run"),
            std::string::npos);
  now.checkpoint.allow_changes = true;
  EXPECT_EQ(model_refusal(now, saved), "");
  config::RunConfig named = before;
  named.model.preset = "a name";  // of values that are compared themselves
  EXPECT_TRUE(accepted_changes(named, to_tree(before)).empty());
}

// Moments have the same names and shapes in several optimizers.
TEST(Resume, F5_OptimizerStateOfAnotherOptimizerIsRefused) {
  config::RunConfig now = llama();
  checkpoint::CheckpointHeader header;
  header.config = to_tree(now);
  header.model = to_tree(now.model);
  StartingPoint start;
  const Path checkpoint = "base.checkpoint";
  EXPECT_NO_THROW(changes_since(now, start, checkpoint, header));
  for (const OptimizerTraits& other : kOptimizers) {
    const OptimizerKind kind = other.kind;
    if (kind == OptimizerKind::kAdamW) continue;
    now.optimizer.kind = kind;
    try {
      changes_since(now, start, checkpoint, header);
      ADD_FAILURE() << name_of_entry(kind);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("base.checkpoint holds the optimizer state of adamw"),
                std::string::npos)
          << e.what();
    }
    start.resumes = true;
    now.checkpoint.allow_changes = true;
    EXPECT_THROW(changes_since(now, start, checkpoint, header), Error);
    start.resumes = false;
    start.load = config::Load::kWeights;
    EXPECT_NO_THROW(changes_since(now, start, checkpoint, header));
    start.load = config::Load::kAll;
  }
  now.optimizer.groups = config::groups_of("[{match: [embed.*], kind: sgd}]");
  header.config = Tree::object();  // an imported model: it has no optimizer state
  EXPECT_NO_THROW(changes_since(now, start, checkpoint, header));
}

// With groups the optimizers are compared weight by weight; their settings may change.
TEST(Resume, AnotherOptimizerOfAWeightIsRefusedByName) {
  config::RunConfig before = tiny(model::Family::kLlama);
  before.optimizer.groups =
      config::groups_of("[{match: [embed.*], kind: sgd}, {match: ['*norm*']}]");
  checkpoint::CheckpointHeader header;
  header.config = to_tree(before);
  header.model = to_tree(before.model);
  StartingPoint start;
  const auto told = [&](const config::RunConfig& now) -> std::string {
    try {
      changes_since(now, start, "base.checkpoint", header);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  config::RunConfig now = before;
  now.optimizer.groups = config::groups_of(
      "[{match: [embed.weight], kind: sgd, learning_rate_multiplier: 2, weight_decay: 0.5}]");
  EXPECT_EQ(told(now), "");  // the same kinds, written otherwise
  now.optimizer.groups =
      config::groups_of("[{match: [embed.*], kind: sgd}, {match: ['*norm*'], kind: sgd}]");
  const std::string text = told(now);
  EXPECT_NE(text.find("layer.norm1.gain: adamw there, sgd in this run"), text.npos) << text;
  EXPECT_EQ(text.find("embed.weight:"), text.npos) << text;
  now.optimizer.freeze = {"*norm*"};  // what is not trained has no optimizer
  EXPECT_EQ(told(now), "");
  now = before;
  now.optimizer.groups.clear();
  EXPECT_NE(told(now).find("embed.weight: sgd there, adamw in this run"), std::string::npos);
  start.load = config::Load::kWeights;
  EXPECT_EQ(told(now), "");
}

// The settings of a checkpoint and those of the run are turned into optimizers by the same rule, so
// different settings that mean the same are accepted, to Muon and from it.
TEST(Resume, MuonIsComparedMatrixByMatrix) {
  const auto with = [](OptimizerKind kind, const char* groups) {
    config::RunConfig c = tiny(model::Family::kLlama);
    c.optimizer = config::optimizer_defaults(kind);
    c.optimizer.groups = config::groups_of(groups);
    return c;
  };
  const auto told = [](const config::RunConfig& before, const config::RunConfig& now) {
    checkpoint::CheckpointHeader header;
    header.config = to_tree(before);
    header.model = to_tree(before.model);
    try {
      changes_since(now, StartingPoint(), "base.checkpoint", header);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const config::RunConfig muon = with(OptimizerKind::kMuon, "[]");
  const config::RunConfig by_groups =
      with(OptimizerKind::kAdamW, "[{match: ['*.attn.*', '*.mlp.*'], kind: muon}]");
  EXPECT_EQ(told(muon, by_groups), "");
  EXPECT_EQ(told(by_groups, muon), "");
  const config::RunConfig adamw = with(OptimizerKind::kAdamW, "[{match: ['*norm*']}]");
  std::string text = told(muon, adamw);
  EXPECT_NE(text.find("layer.attn.qkv.weight: muon there, adamw in this run"), text.npos) << text;
  EXPECT_EQ(text.find("embed.weight"), text.npos) << text;
  text = told(adamw, muon);
  EXPECT_NE(text.find("layer.mlp.down.weight: adamw there, muon in this run"), text.npos) << text;
  EXPECT_EQ(text.find("norm"), text.npos) << text;
  // A group that names muon has it for all of its matrices, one that inherits it only for those of
  // layers.
  const config::RunConfig embeds =
      with(OptimizerKind::kMuon, "[{match: [embed.*], kind: muon}, {match: ['*norm*']}]");
  const config::RunConfig inherits = with(OptimizerKind::kMuon, "[{match: [embed.*]}]");
  text = told(embeds, muon);
  EXPECT_NE(text.find("embed.weight: muon there, adamw in this run"), text.npos) << text;
  EXPECT_EQ(text.find("layer."), text.npos) << text;
  EXPECT_EQ(told(inherits, muon), "");
  // Weights that the run no longer has are not compared.
  EXPECT_EQ(told(with(OptimizerKind::kMuon, "[{match: ['*.lora_b'], kind: sgd}]"), muon), "");
}

}  // namespace
}  // namespace tessera::train
