// Sizes and options of a model of some family. Presets fill it by name (model/presets.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/range.h"
#include "ir/ops/gelu.h"
#include "model/model_sections.h"

namespace tessera::model {

enum class Family : uint8_t {
  kGpt2,
  kNeox,
  kLlama,
  kT5,
  kQwen2,
  kMixtral,
  kMistral,
  kSmollm3,
  kPhi3,
  kQwen3,
  kOlmo2,
  kGemma2,
  kGemma3,
  kQwen3Moe,
  kDeepseekV2,
  kDeepseekV3,
  kGptOss
};
enum class Initializer : uint8_t { kNormal, kScaledNormal, kSmall, kWang };

struct ModelConfig {
  std::string preset;  // empty: all sizes are given below
  Family family = Family::kNeox;
  int64_t layers = 0, hidden = 0, heads = 0;
  int64_t encoder_layers = 0;  // 0: no encoder
  int64_t kv_heads = 0;        // 0: as many as heads
  int64_t head_width = 0;      // 0: hidden / heads; latent attention has its own widths
  LatentConfig latent;
  int64_t feed_forward = 0;  // 0: 4 × hidden
  // Layers of another kind, by number, rising. Layers that are listed alike are of one kind.
  std::vector<int64_t> no_rope_layers;  // without rotary embedding
  std::vector<int64_t> wide_layers;     // with wide_feed_forward in place of feed_forward
  int64_t wide_feed_forward = 0;
  // Experts per layer (0: none), per token, and their inner width (0: feed_forward). Layers in
  // dense_layers have one MLP of feed_forward instead. All tokens also pass through a shared MLP.
  int64_t experts = 0, experts_per_token = 0, expert_feed_forward = 0;
  int64_t shared_feed_forward = 0;  // its inner width; 0: none
  std::vector<int64_t> dense_layers;
  RouterConfig router;
  int64_t mtp_depth = 0;  // modules of multi-token prediction: tokens predicted after the next one
  MupConfig mup;
  int64_t window = 0;                  // keys that a query in a sliding layer sees; 0: all
  std::vector<int64_t> window_layers;  // the sliding layers, as above; empty: all
  int64_t vocabulary = 0;              // entries of the tokenizer, unpadded
  int64_t vocabulary_multiple = 128;   // the embedding is padded up to a multiple of this
  int64_t context = 2048;              // longest sequence
  double rotary_pct = 0.25, rope_theta = 10000;
  RopeScalingConfig rope_scaling;
  double window_rope_theta = 0;  // sliding layers use it unscaled; 0: rope_theta
  double attention_scalar = 0;   // scores are multiplied by scalar^-1/2; 0: head size
  double attention_soft_cap = 0, logit_soft_cap = 0;       // 0: none
  int64_t relative_buckets = 32, relative_distance = 128;  // T5's position biases
  bool parallel_residual = true, tied_embeddings = false;
  bool scaled_head = true;  // T5 with tied embeddings
  double norm_epsilon = 1e-5;
  GeluForm gelu = GeluForm::kErf;
  double dropout = 0, attention_dropout = 0;
  double embedding_dropout = -1;                 // below 0: as dropout
  Initializer init = Initializer::kSmall;        // matrices and embeddings
  Initializer output_init = Initializer::kWang;  // matrices that write into the residual stream
  double init_std = 0.02;                        // for normal and scaled_normal

  // Dimensions of a query and of a key; and of a value.
  int64_t head_size() const {
    if (latent.exists()) return latent.key_width();
    return head_width > 0 ? head_width : hidden / heads;
  }
  int64_t value_size() const { return latent.exists() ? latent.value_width : head_size(); }
  double dropout_of_embeddings() const {
    return embedding_dropout < 0 ? dropout : embedding_dropout;
  }
  // Width relative to the model whose hyper-parameters are used; 1 without mup.
  double width_ratio() const {
    return mup.base > 0 ? static_cast<double>(hidden) / static_cast<double>(mup.base) : 1;
  }
  int64_t all_layers() const { return encoder_layers + layers; }
  int64_t padded_vocabulary() const {
    return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
  }

  static void fields(auto& self, auto&& visit) {
    size_fields(self, visit);
    computation_fields(self, visit);
  }

 private:
  static void size_fields(auto& self, auto&& visit) {
    visit("preset", self.preset, "a known model by name: pythia-70m, gpt2, llama2-7b, …");
    visit("family", self.family, "architecture; set by a preset");
    visit("layers", self.layers, "transformer layers (of the decoder, if there is an encoder)");
    visit("encoder_layers", self.encoder_layers, "layers of the encoder; 0: there is none");
    visit("hidden", self.hidden, "width of the residual stream");
    visit("heads", self.heads, "attention heads");
    visit("kv_heads", self.kv_heads, "key/value heads; 0: equal to heads");
    visit("head_width", self.head_width, "dimensions of a head; 0: hidden / heads");
    visit("latent", self.latent, "multi-head latent attention");
    visit("feed_forward", self.feed_forward, "inner width of the MLP; 0: 4 x hidden");
    visit("no_rope_layers", self.no_rope_layers,
          "layers without rotary embedding (NoPE), numbered from 0: [3, 7]");
    visit("wide_layers", self.wide_layers,
          "layers whose MLP or experts have another inner width, numbered from 0: [0, 1, 2]");
    visit("wide_feed_forward", self.wide_feed_forward,
          "the inner width of wide_layers; 0: there are none");
    visit("experts", self.experts, "experts per layer, in place of the MLP; 0: none");
    visit("experts_per_token", self.experts_per_token, "experts per token");
    visit("expert_feed_forward", self.expert_feed_forward,
          "inner width of an expert; 0: feed_forward");
    visit("shared_feed_forward", self.shared_feed_forward,
          "inner width of the MLP that all tokens pass through in addition to their experts; 0: "
          "none");
    visit("dense_layers", self.dense_layers,
          "layers that have an MLP in place of experts, numbered from 0: [0, 1, 2]");
    visit("router", self.router, "the router of each layer");
    visit("mtp_depth", self.mtp_depth,
          "multi-token prediction: how many tokens after the next one are predicted, each by a "
          "layer of its own; 0: none");
    visit("mup", self.mup, "maximal update parametrization: hyper-parameters of a narrower model");
    visit("window", self.window,
          "sliding window: a query sees this many keys, itself included; 0: all before it");
    visit("window_layers", self.window_layers,
          "layers with the window, numbered from 0: [0, 2]; empty: all");
    visit("vocabulary", self.vocabulary,
          "entries of the vocabulary before padding; 0: the tokenizer's");
    visit("vocabulary_multiple", self.vocabulary_multiple,
          "the embedding is padded up to a multiple of this");
    visit("context", self.context, "longest sequence in tokens");
  }

  static void computation_fields(auto& self, auto&& visit) {
    visit("rotary_pct", self.rotary_pct, "fraction of a head's dimensions that RoPE rotates");
    visit("rope_theta", self.rope_theta, "base of the RoPE frequencies");
    visit("rope_scaling", self.rope_scaling, "RoPE scaling for longer contexts");
    visit("window_rope_theta", self.window_rope_theta,
          "base of the RoPE frequencies in layers with a window, which are then unscaled; 0: as in "
          "the others");
    visit("attention_scalar", self.attention_scalar,
          "attention scores are multiplied by attention_scalar^-0.5; 0: the head's width");
    visit("attention_soft_cap", self.attention_soft_cap,
          "attention scores s become cap * tanh(s / cap); 0: no cap");
    visit("logit_soft_cap", self.logit_soft_cap, "the same for logits; 0: no cap");
    visit("relative_buckets", self.relative_buckets, "t5: number of position biases per head");
    visit("relative_distance", self.relative_distance,
          "t5: all distances of at least this share one bias");
    visit("parallel_residual", self.parallel_residual,
          "attention and MLP read the same residual stream");
    visit("tied_embeddings", self.tied_embeddings, "the head uses the embedding's weights");
    visit("scaled_head", self.scaled_head,
          "t5: a head that uses the embedding's weights reads hidden^-0.5 times its input");
    visit("norm_epsilon", self.norm_epsilon, "added to the variance in norms");
    visit("gelu", self.gelu, "erf | tanh: of families that do not compute silu");
    visit("dropout", self.dropout, "dropout probability of embeddings and sublayer outputs",
          tessera::between(0, kBelowOne));
    visit("attention_dropout", self.attention_dropout, "dropout probability of attention weights",
          tessera::between(0, kBelowOne));
    visit("embedding_dropout", self.embedding_dropout,
          "probability, on embeddings, where it is another; below 0: as dropout",
          tessera::between(-kHuge, kBelowOne));
    visit("init", self.init, "normal | scaled_normal | small | wang: matrices and embeddings");
    visit("output_init", self.output_init,
          "the same for matrices that write into the residual stream");
    visit("init_std", self.init_std, "standard deviation of normal and scaled_normal",
          tessera::between(kTinyRoot, kHugeRoot));
  }
};

// Names of the enums' entries, for run files: find them by argument-dependent lookup.
constexpr const char* enum_names(Family) {
  return "gpt2|neox|llama|t5|qwen2|mixtral|mistral|smollm3|phi3|qwen3|olmo2|gemma2|gemma3|"
         "qwen3_moe|deepseek_v2|deepseek_v3|gpt_oss";
}
constexpr const char* enum_names(Initializer) { return "normal|scaled_normal|small|wang"; }

}  // namespace tessera::model
