// The config.json files of families with experts.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "model/check_model.h"
#include "model/forward.h"
#include "model/presets.h"
#include "tests/model/read_hf_config.h"

namespace tessera::model {
namespace {

// As transformers writes it; `more` adds.
std::string mixtral(const std::string& more) {
  return R"({"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96,
    "vocab_size": 300, "max_position_embeddings": 256, "sliding_window": null,
    "router_aux_loss_coef": 0.02, "output_router_logits": false)" +
         more + "}";
}

TEST(HfExperts, ReadsMixtral) {
  const ModelConfig m = read(mixtral(R"(, "num_local_experts": 4, "num_experts_per_tok": 3)"));
  EXPECT_EQ(m.family, Family::kMixtral);
  EXPECT_EQ(m.experts, 4);
  EXPECT_EQ(m.experts_per_token, 3);
  EXPECT_EQ(m.feed_forward, 96);
  EXPECT_DOUBLE_EQ(m.norm_epsilon, 1e-5);
  EXPECT_DOUBLE_EQ(m.rope_theta, 1'000'000);
  EXPECT_EQ(m.router.balance_loss, 0);
  EXPECT_EQ(read(mixtral("")).experts, 8);
  EXPECT_EQ(read(mixtral(R"(, "num_experts": 6)")).experts, 6);
  for (const char* more : {R"(, "router_jitter_noise": 0.1)", R"(, "num_experts_per_tok": 9)"})
    EXPECT_THROW(read(mixtral(more)), Error) << more;
}

TEST(HfExperts, MixtralIsWrittenWithWhatItsClassCanHave) {
  ModelConfig m = read(mixtral(""));
  const Tree written = hf_config_of_model(m, {}, DType::kF32);
  EXPECT_EQ(read(to_json(written)).experts_per_token, 2);
  m.dense_layers = {0};
  EXPECT_THROW(hf_config_of_model(m, {}, DType::kF32), Error);
  m.dense_layers.clear();
  m.router.bias = true;
  EXPECT_THROW(hf_config_of_model(m, {}, DType::kF32), Error);
  m.router.bias = false;
  m.router.renormalize = false;
  EXPECT_THROW(hf_config_of_model(m, {}, DType::kF32), Error);
}

// As transformers writes it; `more` adds, or replaces keys.
std::string deepseek(const std::string& version, const std::string& more) {
  std::string text = R"({"model_type": "deepseek_)" + version + '"';
  const std::pair<const char*, int> sizes[] = {
      {"hidden_size", 64},       {"num_hidden_layers", 4},   {"num_attention_heads", 8},
      {"intermediate_size", 96}, {"vocab_size", 300},        {"max_position_embeddings", 256},
      {"n_routed_experts", 8},   {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24},
      {"kv_lora_rank", 20},      {"qk_nope_head_dim", 12},   {"qk_rope_head_dim", 4},
      {"v_head_dim", 10},        {"num_key_value_heads", 8}, {"head_dim", 4}};
  for (const auto& [key, value] : sizes)
    if (more.find(fmt::format("\"{}\"", key)) == more.npos)
      text += fmt::format(", \"{}\": {}", key, value);
  return text + more + "}";
}

TEST(HfExperts, ReadsDeepseekV2) {
  const ModelConfig m = read(deepseek("v2", R"(, "q_lora_rank": null)"));
  EXPECT_EQ(m.latent, (LatentConfig{.query_rank = 0,
                                    .key_value_rank = 20,
                                    .nope_width = 12,
                                    .rope_width = 4,
                                    .value_width = 10}));
  EXPECT_EQ(m.head_size(), 16);
  EXPECT_EQ(m.shared_feed_forward, 48);
  EXPECT_TRUE(m.dense_layers.empty());
  EXPECT_FALSE(m.router.renormalize);
  EXPECT_EQ(m.router.groups, 1);
  const ModelConfig grouped = read(deepseek("v2", R"(, "topk_method": "group_limited_greedy",
      "n_group": 4, "topk_group": 2, "routed_scaling_factor": 16.0, "first_k_dense_replace": 1)"));
  EXPECT_EQ(grouped.latent.query_rank, 1536);
  EXPECT_EQ(grouped.router.groups, 4);
  EXPECT_EQ(grouped.router.group_score, GroupScore::kMaximum);
  EXPECT_EQ(grouped.router.scale, 16);
  EXPECT_EQ(grouped.dense_layers, std::vector<int64_t>{0});
  EXPECT_EQ(read(deepseek("v2", R"(, "n_group": 4, "topk_group": 2)")).router.groups, 1);
}

TEST(HfExperts, ReadsDeepseekV3) {
  const ModelConfig m = read(deepseek("v3", R"(, "rope_scaling": {"type": "yarn", "factor": 40,
      "original_max_position_embeddings": 64, "mscale": 1.0, "mscale_all_dim": 1.0})"));
  EXPECT_EQ(m.router.score, RouterScore::kSigmoid);
  EXPECT_TRUE(m.router.bias && m.router.renormalize);
  EXPECT_EQ(m.router.groups, 8);
  EXPECT_EQ(m.router.scale, 2.5);
  EXPECT_EQ(m.dense_layers, (std::vector<int64_t>{0, 1, 2}));
  const double g = 0.1 * std::log(40.0) + 1;
  EXPECT_NEAR(attention_scale(m), g * g / 4, 1e-12);
  ModelConfig published;
  ASSERT_TRUE(apply_preset("deepseek-v3", published));
  EXPECT_NEAR(attention_scale(published), 0.135233779, 1e-9);
}

TEST(HfExperts, DeepseekIsRefusedByTheKeyThatDiffers) {
  const std::pair<const char*, const char*> refused[] = {
      {"v2", R"(, "num_key_value_heads": 4)"},
      {"v2", R"(, "topk_method": "noaux_tc")"},
      {"v2", R"(, "norm_topk_prob": true)"},
      {"v2", R"(, "scoring_func": "sigmoid")"},
      {"v2", R"(, "moe_layer_freq": 2)"},
      {"v2", R"(, "n_shared_experts": 0)"},
      {"v3", R"(, "rope_interleave": false)"},
      {"v3", R"(, "v_head_dim": 17)"},
      {"v3", R"(, "qk_rope_head_dim": 3)"},
      {"v3", R"(, "attention_bias": true)"},
      {"v3", R"(, "scoring_func": "softmax")"},
      {"v3", R"(, "rope_scaling": {"rope_type": "linear",
      "factor": 2.0, "mscale_all_dim": 1.0})"}};
  for (const auto& [version, more] : refused) {
    const std::string_view keys = more;
    const std::string key(keys.substr(3, keys.find('"', 3) - 3));
    try {
      read(deepseek(version, more));
      ADD_FAILURE() << "it is read: " << more;
    } catch (const Error& e) {
      const std::string_view why = e.what();
      EXPECT_TRUE(why.find(key) != why.npos || why.find("mscale_all_dim") != why.npos) << why;
    }
  }
}

TEST(HfExperts, DeepseekIsWrittenAsItIsRead) {
  for (const char* version : {"v2", "v3"}) {
    ModelConfig m = read(deepseek(version, R"(, "rope_scaling": {"type": "yarn", "factor": 4,
      "original_max_position_embeddings": 64, "mscale": 0.7, "mscale_all_dim": 0.5})"));
    const ModelConfig back = read(to_json(hf_config_of_model(m, {}, DType::kF32)));
    EXPECT_EQ(back.latent, m.latent);
    EXPECT_EQ(back.rope_scaling.mscale_all_dim, 0.5);
    EXPECT_EQ(back.shared_feed_forward, m.shared_feed_forward);
    m.dense_layers = {2};
    EXPECT_THROW(hf_config_of_model(m, {}, DType::kF32), Error);
    m.dense_layers = {};
    m.shared_feed_forward = 25;
    EXPECT_THROW(hf_config_of_model(m, {}, DType::kF32), Error);
  }
}

// An error of an export names the keys of the router that the format cannot express.
TEST(HfExperts, ARouterThatIsNotMixtralsIsExplainedByItsKeys) {
  ModelConfig m;
  apply_family(Family::kMixtral, m);
  m.router.scale = 2.5;
  try {
    hf_config_of_model(m, {}, DType::kF32);
    ADD_FAILURE() << "it is exported";
  } catch (const Error& e) {
    const std::string why = e.what();
    EXPECT_NE(why.find("model.router.scale = 1"), std::string::npos) << why;
    EXPECT_NE(why.find("scale = 2.5"), std::string::npos) << why;
  }
}

// As transformers writes it; `more` adds.
std::string qwen3_moe(const std::string& more) {
  return R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 5,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
    "moe_intermediate_size": 24, "num_experts": 6, "num_experts_per_tok": 3, "vocab_size": 300,
    "max_position_embeddings": 256, "sliding_window": null)" +
         more + "}";
}

TEST(HfExperts, ReadsQwen3Moe) {
  const ModelConfig m = read(qwen3_moe(""));
  EXPECT_EQ(m.family, Family::kQwen3Moe);
  EXPECT_EQ(m.experts, 6);
  EXPECT_EQ(m.experts_per_token, 3);
  EXPECT_EQ(m.feed_forward, 96);
  EXPECT_EQ(m.expert_feed_forward, 24);
  EXPECT_EQ(m.head_size(), 16);
  EXPECT_EQ(m.dense_layers, std::vector<int64_t>());
  EXPECT_FALSE(m.router.renormalize);
  EXPECT_EQ(m.window, 0);
  EXPECT_TRUE(read(qwen3_moe(R"(, "norm_topk_prob": true)")).router.renormalize);
  const ModelConfig defaults = read(R"({"model_type": "qwen3_moe"})");
  EXPECT_EQ(defaults.experts, 128);
  EXPECT_EQ(defaults.expert_feed_forward, 768);
  EXPECT_EQ(defaults.head_size(), 64);  // as its class has no head_dim
  EXPECT_EQ(read(R"({"model_type": "qwen3_moe", "num_local_experts": 9})").experts, 9);
}

TEST(HfExperts, DenseLayersOfQwen3MoeComeFromTwoKeys) {
  const auto dense = [](const char* more) { return read(qwen3_moe(more)).dense_layers; };
  EXPECT_EQ(dense(R"(, "decoder_sparse_step": 2)"), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(dense(R"(, "mlp_only_layers": [1, 4])"), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(dense(R"(, "mlp_only_layers": [1], "decoder_sparse_step": 3)"),
            (std::vector<int64_t>{0, 1, 3, 4}));
  EXPECT_EQ(dense(R"(, "mlp_only_layers": null)"), std::vector<int64_t>());
}

TEST(HfExperts, TheWindowOfQwen3MoeIsOfAllLayersAndOnlyIfItIsUsed) {
  EXPECT_EQ(read(R"({"model_type": "qwen3_moe", "sliding_window": 7})").window, 0);
  const ModelConfig m =
      read(R"({"model_type": "qwen3_moe", "sliding_window": 7, "use_sliding_window": true})");
  EXPECT_EQ(m.window, 7);
  EXPECT_TRUE(m.window_layers.empty());
}

TEST(HfExperts, Qwen3MoeIsWrittenWithWhatItsClassCanHave) {
  ModelConfig m = read(qwen3_moe(R"(, "mlp_only_layers": [1], "norm_topk_prob": true)"));
  const ModelConfig again = read(to_json(hf_config_of_model(m, {}, DType::kF32)));
  EXPECT_EQ(again.dense_layers, m.dense_layers);
  EXPECT_TRUE(again.router.renormalize);
  EXPECT_EQ(again.expert_feed_forward, 24);
  EXPECT_EQ(again.head_size(), 16);
  m.router.score = RouterScore::kSigmoid;
  EXPECT_THROW(hf_config_of_model(m, {}, DType::kF32), Error);
  m.router.score = RouterScore::kSoftmax;
  m.window = 5;
  m.window_layers = {0};
  EXPECT_THROW(hf_config_of_model(m, {}, DType::kF32), Error);
}

// As published, without the list of layers.
constexpr const char* kGptOss = R"({"model_type": "gpt_oss", "attention_bias": true,
  "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
  "initial_context_length": 4096, "intermediate_size": 2880, "max_position_embeddings": 131072,
  "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
  "num_key_value_heads": 8, "num_local_experts": 32, "rms_norm_eps": 1e-05, "sliding_window": 128,
  "quantization_config": {"quant_method": "mxfp4"},
  "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                   "original_max_position_embeddings": 4096, "rope_type": "yarn",
                   "truncate": false},
  "rope_theta": 150000, "swiglu_limit": 7.0, "tie_word_embeddings": false, "vocab_size": 201088})";

TEST(HfExperts, ThePublishedGptOssIsThePreset) {
  ModelConfig preset;
  ASSERT_TRUE(apply_preset("gpt-oss-20b", preset));
  const auto text = [](const ModelConfig& m) { return to_json(to_tree(comparable(m))); };
  EXPECT_EQ(text(read(kGptOss)), text(preset));
  const ModelConfig again = read(to_json(hf_config_of_model(preset, {}, DType::kBF16)));
  EXPECT_EQ(text(again), text(preset));
}

// A file without the keys of the rotary embedding has the published one; the default of windows is
// every second layer.
TEST(HfExperts, ReadsDefaultsOfGptOss) {
  const ModelConfig m = read(R"({"model_type": "gpt_oss", "num_hidden_layers": 3})");
  EXPECT_EQ(m.experts, 128);
  EXPECT_EQ(m.head_size(), 64);
  EXPECT_EQ(m.window, 128);
  EXPECT_EQ(m.window_layers, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(m.rope_scaling.rope_type, RopeType::kYarn);
  EXPECT_EQ(m.rope_scaling.factor, 32);
  EXPECT_FALSE(m.rope_scaling.truncate);
  EXPECT_EQ(m.rope_theta, 150000);
  ModelConfig unscaled = m;
  unscaled.rope_scaling = {};
  const ModelConfig again = read(to_json(hf_config_of_model(unscaled, {}, DType::kF32)));
  EXPECT_FALSE(again.rope_scaling.scales());
}

// transformers cannot run the class without a window.
TEST(HfExperts, GptOssWithoutWindowsIsWrittenWithOne) {
  ModelConfig m = read(R"({"model_type": "gpt_oss", "num_hidden_layers": 3})");
  m.window = 0;
  m.window_layers = {};
  const Tree written = hf_config_of_model(m, {}, DType::kF32);
  EXPECT_FALSE(written.find("sliding_window")->is_null());
  EXPECT_EQ(read(to_json(written)).window, 0);
}

TEST(HfExperts, RejectsOtherGatesAndMissingBiasesOfGptOss) {
  const auto why = [](const std::string& key) {
    return error_of(R"({"model_type": "gpt_oss", )" + key + "}");
  };
  EXPECT_NE(why(R"("swiglu_limit": 5)").find("swiglu_limit"), std::string::npos);
  EXPECT_NE(why(R"("swiglu_alpha": 1.5)").find("swiglu_alpha"), std::string::npos);
  EXPECT_NE(why(R"("attention_bias": false)").find("attention_bias"), std::string::npos);
  EXPECT_NE(why(R"("quantization_config": {"quant_method": "fp8"})").find("quantization_config"),
            std::string::npos);
  ModelConfig m = read(R"({"model_type": "gpt_oss"})");
  m.dense_layers = {0};
  EXPECT_THROW(hf_config_of_model(m, {}, DType::kF32), Error);
}

}  // namespace
}  // namespace tessera::model
