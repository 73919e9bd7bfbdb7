#include "model/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/model/read_hf_config.h"

namespace tessera::model {
namespace {

// The keys that Pythia 70M has in transformers 4; `more` replaces or adds.
std::string pythia(const std::string& more) {
  return R"({"model_type": "gpt_neox", "hidden_size": 512, "num_hidden_layers": 6,
    "num_attention_heads": 8, "intermediate_size": 2048, "max_position_embeddings": 2048,
    "layer_norm_eps": 1e-05, "vocab_size": 50304, "use_parallel_residual": true,
    "tie_word_embeddings": false)" +
         more + "}";
}

TEST(HfConfig, ReadsPythiaOfVersion4) {
  const ModelConfig m =
      read(pythia(R"(, "rotary_pct": 0.25, "rotary_emb_base": 20000, "hidden_act": "gelu",
                "rope_scaling": null)"));
  EXPECT_EQ(m.family, Family::kNeox);
  EXPECT_EQ(m.hidden, 512);
  EXPECT_EQ(m.layers, 6);
  EXPECT_EQ(m.heads, 8);
  EXPECT_EQ(m.feed_forward, 2048);
  EXPECT_EQ(m.padded_vocabulary(), 50304);
  EXPECT_EQ(m.vocabulary, 50304);
  EXPECT_EQ(m.gelu, GeluForm::kErf);
  EXPECT_DOUBLE_EQ(m.rotary_pct, 0.25);
  EXPECT_DOUBLE_EQ(m.rope_theta, 20000);
  EXPECT_TRUE(m.parallel_residual);
  EXPECT_FALSE(m.tied_embeddings);
}

TEST(HfConfig, ReadsPythiaOfVersion5) {
  const ModelConfig m = read(pythia(
      R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0,
           "partial_rotary_factor": 0.5}, "hidden_act": "gelu_fast")"));
  EXPECT_DOUBLE_EQ(m.rotary_pct, 0.5);
  EXPECT_DOUBLE_EQ(m.rope_theta, 5000);
  EXPECT_EQ(m.gelu, GeluForm::kTanh);
}

TEST(HfConfig, ReadsGpt2WithItsDefaults) {
  const ModelConfig m = read(R"({"model_type": "gpt2", "n_inner": null})");
  EXPECT_EQ(m.family, Family::kGpt2);
  EXPECT_EQ(m.hidden, 768);
  EXPECT_EQ(m.feed_forward, 3072);
  EXPECT_EQ(m.context, 1024);
  EXPECT_EQ(m.padded_vocabulary(), 50257);
  EXPECT_TRUE(m.tied_embeddings);
  EXPECT_FALSE(m.parallel_residual);
  EXPECT_EQ(m.gelu, GeluForm::kTanh);
  EXPECT_DOUBLE_EQ(m.dropout, 0.1);
}

// Llama 3.1's keys in transformers 4; `more` adds.
std::string llama(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96,
    "vocab_size": 300, "max_position_embeddings": 256, "rms_norm_eps": 1e-05,
    "hidden_act": "silu", "pretraining_tp": 1, "rope_theta": 500000.0)" +
         more + "}";
}

constexpr const char* kScaling =
    R"({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64)";

TEST(HfConfig, ReadsLlamaOfBothVersions) {
  const std::string scaling(kScaling);
  const ModelConfig v4 = read(llama(R"(, "rope_scaling": )" + scaling + "}"));
  const ModelConfig v5 =
      read(llama(R"(, "rope_parameters": )" + scaling + R"(, "rope_theta": 500000.0})"));
  for (const ModelConfig& m : {v4, v5}) {
    EXPECT_EQ(m.family, Family::kLlama);
    EXPECT_EQ(m.kv_heads, 2);
    EXPECT_EQ(m.feed_forward, 96);
    EXPECT_DOUBLE_EQ(m.rope_theta, 500000);
    EXPECT_DOUBLE_EQ(m.rotary_pct, 1);
    EXPECT_DOUBLE_EQ(m.rope_scaling.factor, 32);
    EXPECT_EQ(m.rope_scaling.original_max_position_embeddings, 64);
    EXPECT_FALSE(m.tied_embeddings);
  }
  EXPECT_EQ(read(R"({"model_type": "llama"})").kv_heads, 32);
  EXPECT_DOUBLE_EQ(read(R"({"model_type": "llama"})").norm_epsilon, 1e-6);
}

// As transformers 4 writes it; `more` adds.
std::string qwen2(const std::string& more) {
  return R"({"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96,
    "vocab_size": 300, "max_position_embeddings": 256, "rms_norm_eps": 1e-06,
    "hidden_act": "silu", "rope_theta": 1000000.0, "sliding_window": 131072,
    "max_window_layers": 3, "use_sliding_window": false, "tie_word_embeddings": true)" +
         more + "}";
}

TEST(HfConfig, ReadsQwen2) {
  const ModelConfig m = read(qwen2(""));
  EXPECT_EQ(m.family, Family::kQwen2);
  EXPECT_EQ(m.kv_heads, 2);
  EXPECT_DOUBLE_EQ(m.rope_theta, 1'000'000);
  EXPECT_DOUBLE_EQ(m.norm_epsilon, 1e-6);
  EXPECT_TRUE(m.tied_embeddings);
  const ModelConfig absent = read(R"({"model_type": "qwen2"})");
  EXPECT_EQ(absent.feed_forward, 22016);
  EXPECT_DOUBLE_EQ(absent.rope_theta, 10000);
}

// As transformers 5 writes T5's, which says of all that they are tied; `more` adds.
std::string t5(const std::string& type, const std::string& more) {
  return R"({"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 3, "num_decoder_layers": 2,
    "num_heads": 4, "vocab_size": 300, "feed_forward_proj": "gated-gelu", "model_type": ")" +
         type + "\"" + more + "}";
}

TEST(HfConfig, ReadsWhatIsTiedInT5OfBothVersions) {
  const ModelConfig tied = read(t5("t5", R"(, "tie_word_embeddings": true)"));
  EXPECT_EQ(tied.encoder_layers, 3);
  EXPECT_EQ(tied.layers, 2);
  EXPECT_TRUE(tied.tied_embeddings && tied.scaled_head);
  EXPECT_FALSE(read(t5("t5", R"(, "tie_word_embeddings": false)")).tied_embeddings);
  const std::string fifth = R"(, "tie_word_embeddings": true, "scale_decoder_outputs": false)";
  EXPECT_FALSE(read(t5("t5", fifth)).tied_embeddings);
  EXPECT_FALSE(read(t5("mt5", R"(, "tie_word_embeddings": true)")).tied_embeddings);
}

// transformers scales what a tied head of T5 reads, and never MT5's.
TEST(HfConfig, SaysOfT5WhetherItsHeadIsScaled) {
  ModelConfig m = read(t5("t5", R"(, "tie_word_embeddings": true)"));
  m.preset = "mt5-small";
  const auto written = [&](const char* key) {
    const Tree tree = hf_config_of_model(m, 1, DType::kF32);
    const Tree* found = tree.find(key);
    return found == nullptr ? "absent" : to_json(*found);
  };
  EXPECT_EQ(written("model_type"), "\"t5\"");
  EXPECT_EQ(written("scale_decoder_outputs"), "absent");
  m.scaled_head = false;
  EXPECT_EQ(written("model_type"), "\"mt5\"");
  EXPECT_EQ(written("scale_decoder_outputs"), "false");
  EXPECT_EQ(written("tie_word_embeddings"), "true");
}

// A config.json of a small model of that type; `more` adds.
std::string small(const std::string& type, const std::string& more, int layers = 4) {
  return R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_hidden_layers": )" +
         std::to_string(layers) +
         R"(, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96,
    "vocab_size": 300, "max_position_embeddings": 256)" +
         more + "}";
}

using Layers = std::vector<int64_t>;

TEST(HfConfig, ReadsTheWindowOfMistral) {
  EXPECT_EQ(read(small("mistral", "")).window, 4096);  // transformers' own where it is absent
  EXPECT_EQ(read(small("mistral", R"(, "sliding_window": null)")).window, 0);
  const ModelConfig m = read(small("mistral", R"(, "sliding_window": 16, "head_dim": 12)"));
  EXPECT_EQ(m.window, 16);
  EXPECT_TRUE(m.window_layers.empty());
  EXPECT_EQ(m.head_width, 12);
  EXPECT_EQ(read(small("mistral", R"(, "head_dim": null)")).head_width, 0);
}

TEST(HfConfig, ReadsTheLayersOfSmollm3) {
  const ModelConfig m = read(small("smollm3", ""));
  EXPECT_EQ(m.no_rope_layers, Layers{3});
  EXPECT_TRUE(m.tied_embeddings);
  EXPECT_DOUBLE_EQ(m.rope_theta, 2'000'000);
  EXPECT_EQ(read(small("smollm3", R"(, "no_rope_layer_interval": 2)")).no_rope_layers,
            (Layers{1, 3}));
  const ModelConfig listed = read(small("smollm3", R"(, "no_rope_layers": [0, 1, 1, 0, 0],
      "use_sliding_window": true, "sliding_window": 8)"));
  EXPECT_EQ(listed.no_rope_layers, (Layers{0, 3}));
  EXPECT_EQ(listed.window_layers, (Layers{0, 3}));  // the layers without rotary embedding
  EXPECT_EQ(listed.window, 8);
}

TEST(HfConfig, ReadsTheScaleOfPhi3) {
  const std::string factors = R"("short_factor": [1, 1.5, 2, 2.5], "long_factor": [2, 3, 4, 5])";
  for (const char* name : {"longrope", "su", "yarn"}) {
    const ModelConfig m = read(small("phi3", R"(, "original_max_position_embeddings": 64,
        "rope_scaling": {"type": ")" + std::string(name) +
                                                 "\", " + factors + "}"));
    EXPECT_EQ(m.rope_scaling.rope_type, RopeType::kLongrope) << name;
    EXPECT_EQ(m.rope_scaling.original_max_position_embeddings, 64);
    EXPECT_DOUBLE_EQ(m.rope_scaling.factor, 4);  // 256 / 64
    EXPECT_EQ(m.rope_scaling.long_factor, (std::vector<double>{2, 3, 4, 5}));
  }
  // The original context is a key of the file, 4096 where it is absent, whatever rope_scaling says.
  const ModelConfig absent = read(small("phi3", R"(, "rope_scaling": {"type": "longrope",
      "original_max_position_embeddings": 64, )" + factors +
                                                    "}"));
  EXPECT_EQ(absent.rope_scaling.original_max_position_embeddings, 4096);
  EXPECT_DOUBLE_EQ(absent.rope_scaling.factor, 1);
  EXPECT_DOUBLE_EQ(read(small("phi3", R"(, "partial_rotary_factor": 0.5)")).rotary_pct, 0.5);
  EXPECT_EQ(read(small("phi3", "")).window, 0);
}

TEST(HfConfig, ReadsScalesOfAllKinds) {
  const auto scale = [](const std::string& rope) {
    return read(llama(R"(, "rope_scaling": )" + rope)).rope_scaling;
  };
  const RopeScalingConfig linear = scale(R"({"type": "linear", "factor": 2.0})");
  EXPECT_TRUE(linear.rope_type == RopeType::kLinear && linear.factor == 2);
  const RopeScalingConfig dynamic = scale(R"({"type": "dynamic", "factor": 2.0})");
  EXPECT_TRUE(dynamic.rope_type == RopeType::kDynamic &&
              dynamic.original_max_position_embeddings == 256);
  const RopeScalingConfig yarn = scale(R"({"rope_type": "yarn", "factor": 8.0, "truncate": false,
      "original_max_position_embeddings": 32, "beta_fast": 16})");
  EXPECT_TRUE(yarn.rope_type == RopeType::kYarn && yarn.factor == 8 && !yarn.truncate);
  EXPECT_TRUE(yarn.beta_slow == 1 && yarn.beta_fast == 16 &&
              yarn.original_max_position_embeddings == 32 && yarn.attention_factor == 0);
  // Without a factor: the context over the first one; null is not false, absent is true.
  const RopeScalingConfig derived = scale(R"({"rope_type": "yarn", "factor": null, "truncate": null,
      "original_max_position_embeddings": 32, "beta_fast": null})");
  EXPECT_TRUE(derived.factor == 8 && derived.beta_fast == 32 && !derived.truncate);
  const RopeScalingConfig two = scale(R"({"rope_type": "yarn", "factor": 40.0, "mscale": 0.707,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 32})");
  EXPECT_TRUE(two.attention_factor == 0 && two.mscale == 0.707 && two.mscale_all_dim == 1);
}

TEST(HfConfig, ReadsTheWindowsOfQwen3) {
  const ModelConfig m = read(small("qwen3", ""));
  EXPECT_EQ(m.head_width, 128);
  EXPECT_EQ(m.window, 0);
  EXPECT_EQ(read(small("qwen3", R"(, "sliding_window": 8)")).window, 0);
  const ModelConfig used = read(small("qwen3", R"(, "use_sliding_window": true,
      "sliding_window": 8, "max_window_layers": 1, "head_dim": 16)"));
  EXPECT_EQ(used.window, 8);
  EXPECT_EQ(used.window_layers, (Layers{1, 2, 3}));
  const ModelConfig listed = read(small("qwen3", R"(, "use_sliding_window": true,
      "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention",
      "sliding_attention", "full_attention"])"));
  EXPECT_EQ(listed.window_layers, (Layers{0, 2}));
  EXPECT_EQ(read(small("qwen3", R"(, "use_sliding_window": true, "sliding_window": null)")).window,
            0);
}

TEST(HfConfig, ReadsGemma2) {
  const ModelConfig m = read(small("gemma2", ""));
  EXPECT_EQ(m.head_width, 256);
  EXPECT_EQ(m.window, 4096);
  EXPECT_EQ(m.window_layers, (Layers{0, 2}));
  EXPECT_TRUE(m.tied_embeddings && m.gelu == GeluForm::kTanh);
  EXPECT_TRUE(m.attention_soft_cap == 50 && m.logit_soft_cap == 30 && m.attention_scalar == 0);
  const ModelConfig other = read(small("gemma2", R"(, "attn_logit_softcapping": null,
      "final_logit_softcapping": null, "query_pre_attn_scalar": 144, "tie_word_embeddings": false,
      "hidden_activation": null, "hidden_act": "silu")"));
  EXPECT_TRUE(other.attention_soft_cap == 0 && other.logit_soft_cap == 0);
  EXPECT_TRUE(other.attention_scalar == 144 && !other.tied_embeddings);
}

TEST(HfConfig, ReadsBothRotariesOfGemma3) {
  const ModelConfig absent = read(small("gemma3_text", ""));
  EXPECT_EQ(absent.window_layers.size(), 0U);  // four layers, of which the sixth would see all
  EXPECT_DOUBLE_EQ(absent.window_rope_theta, 10000);
  const std::string old = R"(, "rope_theta": 5000.0, "rope_local_base_freq": 700.0,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window_pattern": 3)";
  const std::string types = R"("sliding_attention", "sliding_attention", "full_attention")";
  const std::string fresh = R"(, "rope_parameters": {"full_attention": {"rope_type": "linear",
      "factor": 8.0, "rope_theta": 5000.0}, "sliding_attention": {"rope_theta": 700.0}},
      "layer_types": [)" + types +
                            ", " + types + "]";
  for (const std::string& more : {old, fresh}) {
    const ModelConfig m = read(small("gemma3_text", more, 6));
    EXPECT_EQ(m.window_layers, (Layers{0, 1, 3, 4})) << more;
    EXPECT_DOUBLE_EQ(m.rope_theta, 5000);
    EXPECT_DOUBLE_EQ(m.window_rope_theta, 700);
    EXPECT_EQ(m.rope_scaling.rope_type, RopeType::kLinear);
    EXPECT_DOUBLE_EQ(m.rope_scaling.factor, 8);
  }
}

TEST(HfConfig, ReadsOlmo2) {
  const ModelConfig m = read(R"({"model_type": "olmo2", "num_attention_heads": 8,
      "num_key_value_heads": null})");
  EXPECT_EQ(m.kv_heads, 8);
  EXPECT_DOUBLE_EQ(m.norm_epsilon, 1e-5);
  EXPECT_DOUBLE_EQ(m.rope_theta, 10000);
}

TEST(HfConfig, WhatIsWrittenIsReadBack) {
  ModelConfig neox = read(pythia(R"(, "hidden_act": "gelu_new", "rotary_pct": 0.5)"));
  neox.parallel_residual = false;
  ModelConfig gpt2 = read(R"({"model_type": "gpt2", "n_inner": 100, "n_positions": 77,
    "activation_function": "gelu", "tie_word_embeddings": false, "resid_pdrop": 0.0})");
  const ModelConfig plain = read(llama(""));
  ModelConfig scaled = read(llama(R"(, "rope_scaling": )" + std::string(kScaling) + "}"));
  scaled.tied_embeddings = true;
  const ModelConfig tied = read(t5("t5", R"(, "dense_act_fn": "gelu")"));
  EXPECT_EQ(tied.gelu, GeluForm::kErf);
  ModelConfig wide = plain;
  wide.head_width = 48;
  const ModelConfig untied = read(t5("t5", R"(, "tie_word_embeddings": false)"));
  std::vector<ModelConfig> all = {neox, gpt2, plain, wide, scaled, read(qwen2("")), tied, untied};
  for (const char* type : {"mistral", "smollm3", "phi3", "qwen3", "olmo2", "gemma2"})
    all.push_back(
        read(small(type, type == std::string("olmo2") ? "" : R"(, "sliding_window": 8)")));
  all.push_back(read(small("smollm3", R"(, "no_rope_layers": [0, 1, 1, 0],
      "use_sliding_window": true, "sliding_window": 8)")));
  all.push_back(read(small("phi3", R"(, "original_max_position_embeddings": 64,
      "rope_scaling": {"type": "su", "short_factor": [1.5, 2], "long_factor": [3, 4]},
      "partial_rotary_factor": 0.5)")));
  all.push_back(read(small("gemma2", R"(, "final_logit_softcapping": null,
      "query_pre_attn_scalar": 144, "layer_types": ["full_attention", "sliding_attention",
      "full_attention", "full_attention"])")));
  all.push_back(read(small("gemma3_text", R"(, "sliding_window_pattern": 2, "sliding_window": 8,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0})")));
  for (const char* rope :
       {R"({"type": "linear", "factor": 2.0})", R"({"type": "dynamic", "factor": 2.0})",
        R"({"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.5,
                               "original_max_position_embeddings": 32, "truncate": false})"})
    all.push_back(read(llama(R"(, "rope_scaling": )" + std::string(rope))));
  for (const ModelConfig& m : all) {
    const Tree written = hf_config_of_model(m, 3, DType::kBF16);
    const ModelConfig back = model_from_hf_config(written, "written");
    EXPECT_EQ(to_json(to_tree(back)), to_json(to_tree(m)));
    EXPECT_EQ(to_json(*written.find("eos_token_id")), "3");
    EXPECT_EQ(to_json(*written.find("torch_dtype")), "\"bfloat16\"");
  }
}

// What config.json says of dropout comes back key by key, in the families' own words.
TEST(HfConfig, EachDropoutIsWrittenAsItWasRead) {
  const std::pair<std::string, std::vector<const char*>> kCases[] = {
      {R"({"model_type": "gpt2", "resid_pdrop": 0.25, "embd_pdrop": 0.0, "attn_pdrop": 0.5})",
       {"resid_pdrop", "embd_pdrop", "attn_pdrop"}},
      {R"({"model_type": "gpt2", "resid_pdrop": 0.0, "embd_pdrop": 0.125, "attn_pdrop": 0.5})",
       {"resid_pdrop", "embd_pdrop", "attn_pdrop"}},
      {pythia(R"(, "hidden_dropout": 0.25, "attention_dropout": 0.5, "classifier_dropout": 0.75)"),
       {"hidden_dropout", "attention_dropout"}},
      {llama(R"(, "attention_dropout": 0.5)"), {"attention_dropout"}},
      {qwen2(R"(, "attention_dropout": 0.5)"), {"attention_dropout"}},
      {t5("t5", R"(, "dropout_rate": 0.25, "classifier_dropout": 0.75)"), {"dropout_rate"}},
  };
  for (const auto& [text, keys] : kCases) {
    const Tree given = parse_json(text, "config.json");
    const Tree back = hf_config_of_model(read(text), 3, DType::kF32);
    for (const char* key : keys)
      EXPECT_EQ(to_json(*back.find(key)), to_json(*given.find(key))) << key << " of " << text;
  }
  EXPECT_LT(read(kCases[2].first).embedding_dropout, 0);  // as its other outputs have it
  // Absent: what transformers takes.
  const Tree gpt2 = hf_config_of_model(read(R"({"model_type": "gpt2"})"), 3, DType::kF32);
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    EXPECT_EQ(to_json(*gpt2.find(key)), "0.1") << key;
}

// Which of several keys counts is transformers' rule.
TEST(HfConfig, KeysThatSayTheSameTwice) {
  const ModelConfig neox = read(pythia(R"(, "rotary_emb_base": 500, "rope_theta": 9)"));
  EXPECT_DOUBLE_EQ(neox.rope_theta, 500);
  const ModelConfig both = read(pythia(R"(, "rope_scaling": {"rope_theta": 300},
      "rope_parameters": {"rope_theta": 99, "partial_rotary_factor": 0.5})"));
  EXPECT_DOUBLE_EQ(both.rope_theta, 300);
  EXPECT_DOUBLE_EQ(both.rotary_pct, 0.25);
  EXPECT_DOUBLE_EQ(read(llama(R"(, "rotary_pct": 0.5)")).rotary_pct, 1);
  const ModelConfig gpt2 = read(R"({"model_type": "gpt2", "n_embd": 48, "hidden_size": 24,
      "num_attention_heads": 2, "num_hidden_layers": 3, "max_position_embeddings": 64})");
  EXPECT_EQ(gpt2.hidden, 24);
  EXPECT_EQ(gpt2.heads, 2);
  EXPECT_EQ(gpt2.layers, 3);
  EXPECT_EQ(gpt2.context, 64);
  EXPECT_EQ(read(R"({"model_type": "qwen2", "num_attention_heads": 8,
      "num_key_value_heads": null})")
                .kv_heads,
            8);
}

TEST(HfConfig, TheFirstContextOfAScaleIsTheModelsOwnWhereNoneIsGiven) {
  const std::string rope = R"(, "max_position_embeddings": 512, "rope_parameters": {"rope_type":
      "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}})";
  EXPECT_EQ(read(R"({"model_type": "llama")" + rope).rope_scaling.original_max_position_embeddings,
            512);
  EXPECT_EQ(read(R"({"model_type": "llama", "original_max_position_embeddings": 64)" + rope)
                .rope_scaling.original_max_position_embeddings,
            64);
}

struct Refused {
  const char *config, *said;
};
class HfConfigRefuses : public testing::TestWithParam<Refused> {};
TEST_P(HfConfigRefuses, WithTheReason) {
  const std::string said = error_of(GetParam().config);
  EXPECT_NE(said.find(GetParam().said), std::string::npos) << said;
  EXPECT_EQ(said.find("config.json"), 0u) << said;
}
constexpr Refused kRefused[] = {
    {R"({"model_type": "bloom"})", "config.json:1:16: model_type is bloom"},
    {R"({})", "model_type is absent"},
    {R"([1])", "not a JSON object"},
    {R"({"model_type": "gpt_neox", "hidden_act": "relu"})", "hidden_act is relu"},
    {R"({"model_type": "gpt_neox", "attention_bias": false})", "attention without biases"},
    {R"({"model_type": "gpt_neox", "rope_scaling": {"type": "linear", "factor": 2.0}})",
     "rope_type is linear"},
    {R"({"model_type": "gpt_neox", "rope_parameters": {"rope_type": "yarn"}})",
     "rope_type is yarn"},
    {R"({"model_type": "gpt_neox", "rotary_pct": 1.5})", "expected a number from 0 to 1"},
    {R"({"model_type": "gpt_neox", "hidden_size": 100, "num_attention_heads": 3})",
     "does not divide the width 100"},
    {R"({"model_type": "gpt_neox", "num_hidden_layers": 0})", "expected a size from 1"},
    {R"({"model_type": "gpt_neox", "num_hidden_layers": 99999999})", "expected 1 to 10000"},
    {R"({"model_type": "gpt_neox", "vocab_size": "many"})", "expected an integer"},
    {R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})",
     "a scale of attention by layer"},
    {R"({"model_type": "gpt2", "add_cross_attention": true})", "cross attention"},
    {R"({"model_type": "llama", "rope_scaling": {"rope_type": "proportional", "factor": 2.0}})",
     "rope_type is proportional: Tessera computes default, llama3, linear, dynamic, yarn, "
     "longrope"},
    {R"({"model_type": "llama", "rope_scaling": {"type": "linear"}})", "factor is absent"},
    {R"({"model_type": "llama", "rope_scaling": {"type": "yarn"}})", "factor is absent"},
    {R"({"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 0.5}})",
     "expected more than beta_slow = 1"},
    {R"({"model_type": "llama", "rope_scaling": {"type": "longrope", "long_factor": [1.0]}})",
     "short_factor is absent"},
    {R"({"model_type": "phi3", "rope_scaling": {"type": "longrope", "short_factor": [1.0, 2.0]}})",
     "short_factor is a list of 2: expected 48"},
    {R"({"model_type": "phi3", "rope_scaling": {"type": "linear", "factor": 2.0}})",
     "rope_type is linear: Tessera computes default, longrope in this family"},
    {R"({"model_type": "mistral", "sliding_window": 0})", "sliding_window is 0"},
    {R"({"model_type": "mistral", "layer_types": ["full_attention"]})", "layer_types is given"},
    {R"({"model_type": "smollm3", "no_rope_layers": [1, 0]})", "no_rope_layers is a list of 2"},
    {R"({"model_type": "smollm3", "no_rope_layer_interval": 0})", "expected a size from 1"},
    {R"({"model_type": "smollm3", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]})",
     "layer 0 has sliding attention, which needs a window"},
    {R"({"model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["chunked_attention"]})",
     "layer_types is chunked_attention"},
    {R"({"model_type": "qwen3", "attention_bias": true})", "attention with biases"},
    {R"({"model_type": "olmo2", "sliding_window": 8})", "OLMo 2 attends to the whole text"},
    {R"({"model_type": "gemma2", "sliding_window": null})", "which needs a window"},
    {R"({"model_type": "gemma2", "final_logit_softcapping": 0})", "final_logit_softcapping is 0"},
    {R"({"model_type": "gemma2", "hidden_activation": "silu"})", "hidden_activation is silu"},
    {R"({"model_type": "gemma2", "use_bidirectional_attention": true})",
     "attention to later tokens"},
    {R"({"model_type": "gemma3_text", "attn_logit_softcapping": 50.0})", "has no cap"},
    {R"({"model_type": "gemma3_text", "rope_parameters": {"rope_theta": 5}})",
     "rope_parameters is flat"},
    {R"({"model_type": "gemma3_text", "rope_scaling": {"type": "linear", "factor": 8.0}})",
     "transformers reads rope_type in this family"},
    {R"({"model_type": "gemma3_text", "rope_parameters": {"sliding_attention":
         {"rope_type": "linear", "factor": 8.0}}})",
     "layers with a window use unscaled RoPE"},
    {R"({"model_type": "gemma3"})", "model_type is gemma3: this version reads"},
    {R"({"model_type": "llama", "rope_scaling": 3})", "rope_scaling is not an object"},
    {R"({"model_type": "llama", "num_key_value_heads": 5})", "does not divide num_attention_heads"},
    {R"({"model_type": "gpt_neox", "head_dim": 64})", "head_dim is 64"},
    {R"({"model_type": "gpt_neox", "rotary_pct": 0})", "expected an even number of 2 or more"},
    {R"({"model_type": "llama", "sliding_window": 16})", "LLaMA attends to the whole text"},
    {R"({"model_type": "llama", "rope_parameters": {"rope_theta": 9, "partial_rotary_factor": 0.5}})",
     "applies RoPE to the whole head"},
    {R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "factor": 8}})",
     "low_freq_factor is absent"},
    {R"({"model_type": "qwen2", "rope_parameters": {"full_attention": {"rope_theta": 9}}})",
     "full_attention is given"},
    {R"({"model_type": "qwen2", "layer_types": ["full_attention", "sliding_attention"]})",
     "layer_types is a list of 2: num_hidden_layers is 32"},
    {R"({"model_type": "t5"})", "feed_forward_proj is relu"},
    {R"({"model_type": "mt5", "dense_act_fn": "relu"})", "dense_act_fn is relu"},
    {R"({"model_type": "mt5", "is_gated_act": false})", "without a gate"},
    {R"({"model_type": "mt5", "decoder_start_token_id": 5})", "begins with id 0"},
    {R"({"model_type": "mt5", "pad_token_id": 7})", "pads encoder inputs"},
    {R"({"model_type": "mt5", "is_encoder_decoder": false})", "without its encoder"},
    {R"({"model_type": "mt5", "relative_attention_max_distance": 16})", "more than half"},
    {R"({"model_type": "t5", "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false,
         "scale_decoder_outputs": true})",
     "Correct one"},
    {R"({"model_type": "llama", "attention_bias": true})", "attention with biases"},
    {R"({"model_type": "llama", "mlp_bias": true})", "an MLP with biases"},
    {R"({"model_type": "llama", "hidden_act": "gelu"})", "hidden_act is gelu"},
    {R"({"model_type": "llama", "quantization_config": {"bits": 4}})", "quantized weights"},
    {R"({"model_type": "gpt2", "quantization_config": {"bits": 4}})", "quantized weights"},
};
INSTANTIATE_TEST_SUITE_P(All, HfConfigRefuses, testing::ValuesIn(kRefused));

}  // namespace
}  // namespace tessera::model
