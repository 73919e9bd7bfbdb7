#include "model/hf_config.h"

#include <gtest/gtest.h>

#include "base/config.h"
#include "base/error.h"

namespace tessera::model {
namespace {

ModelConfig read(const std::string& text) {
  return model_from_hf_config(parse_json(text, "config.json"), "config.json");
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

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
  for (const ModelConfig& m : {neox, gpt2, plain, wide, scaled, read(qwen2("")), tied, untied}) {
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
    {R"([1])", "no JSON object"},
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
    {R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}})",
     "rope_type is linear: Tessera computes unscaled and llama3 rotary embeddings only"},
    {R"({"model_type": "llama", "rope_parameters": {"rope_type": "yarn", "factor": 4.0}})",
     "rope_type is yarn"},
    {R"({"model_type": "llama", "rope_scaling": 3})", "rope_scaling is no object"},
    {R"({"model_type": "llama", "num_key_value_heads": 5})", "does not divide num_attention_heads"},
    {R"({"model_type": "gpt_neox", "head_dim": 64})", "head_dim is 64"},
    {R"({"model_type": "gpt_neox", "rotary_pct": 0})", "expected an even number of 2 or more"},
    {R"({"model_type": "llama", "sliding_window": 16})", "LLaMA attends to the whole text"},
    {R"({"model_type": "llama", "rope_parameters": {"rope_theta": 9, "partial_rotary_factor": 0.5}})",
     "turned whole"},
    {R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "factor": 8}})",
     "low_freq_factor is absent"},
    {R"({"model_type": "qwen2", "rope_parameters": {"full_attention": {"rope_theta": 9}}})",
     "full_attention is given"},
    {R"({"model_type": "qwen2", "layer_types": ["full_attention", "sliding_attention"]})",
     "full_attention only"},
    {R"({"model_type": "t5"})", "feed_forward_proj is relu"},
    {R"({"model_type": "mt5", "dense_act_fn": "relu"})", "dense_act_fn is relu"},
    {R"({"model_type": "mt5", "is_gated_act": false})", "without a gate"},
    {R"({"model_type": "mt5", "decoder_start_token_id": 5})", "begins with id 0"},
    {R"({"model_type": "mt5", "pad_token_id": 7})", "pads its sources"},
    {R"({"model_type": "mt5", "is_encoder_decoder": false})", "without its encoder"},
    {R"({"model_type": "mt5", "relative_attention_max_distance": 16})", "more than half"},
    {R"({"model_type": "t5", "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false,
         "scale_decoder_outputs": true})",
     "Correct one"},
    {R"({"model_type": "llama", "attention_bias": true})", "attention with biases"},
    {R"({"model_type": "llama", "mlp_bias": true})", "an MLP with biases"},
    {R"({"model_type": "llama", "hidden_act": "gelu"})", "hidden_act is gelu"},
    {R"({"model_type": "llama", "quantization_config": {"bits": 4}})", "quantised weights"},
    {R"({"model_type": "qwen2", "use_sliding_window": true})", "attention to a window of the text"},
    {R"({"model_type": "qwen2", "rope_scaling": {"type": "yarn", "factor": 4.0}})",
     "rope_type is yarn"},
    {R"({"model_type": "gpt2", "quantization_config": {"bits": 4}})", "quantised weights"},
};
INSTANTIATE_TEST_SUITE_P(All, HfConfigRefuses, testing::ValuesIn(kRefused));

}  // namespace
}  // namespace tessera::model
