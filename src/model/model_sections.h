// Nested sections of a model's configuration: RoPE scaling, latent attention, the router of experts
// and maximal update parametrization.
#pragma once

#include <cstdint>
#include <vector>

#include "base/range.h"
#include "ir/ops/router.h"

namespace tessera::model {

// How RoPE frequencies are scaled for contexts longer than the original training context. kDynamic
// scales as kLinear, but only in longer sequences, which are rejected; so nothing is scaled.
enum class RopeType : uint8_t { kLlama3, kLinear, kDynamic, kYarn, kLongrope };
constexpr const char* enum_names(RopeType) { return "llama3|linear|dynamic|yarn|longrope"; }

// The names are those of rope_scaling in a config.json; kernels/rotary.h has the formulas.
struct RopeScalingConfig {
  RopeType rope_type = RopeType::kLlama3;
  double factor = 1;                                 // 1: none, except longrope
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_slow = 1, beta_fast = 32;              // yarn
  int64_t original_max_position_embeddings = 8192;
  double attention_factor = 0;            // 0: by the type
  double mscale = 0, mscale_all_dim = 0;  // yarn; 0: not given
  bool truncate = true;
  std::vector<double> short_factor, long_factor;

  bool scales() const {
    return rope_type == RopeType::kLongrope || (rope_type != RopeType::kDynamic && factor != 1);
  }

  static void fields(auto& self, auto&& visit) {
    visit("rope_type", self.rope_type,
          "llama3 | linear | dynamic | yarn | longrope: how the frequencies are scaled");
    visit("factor", self.factor, "divisor of low RoPE frequencies; 1: no scaling");
    visit("low_freq_factor", self.low_freq_factor,
          "llama3: dimensions with fewer turns in the original context are divided by factor");
    visit("high_freq_factor", self.high_freq_factor,
          "llama3: dimensions with more turns in the original context keep their frequency");
    visit("beta_slow", self.beta_slow, "yarn: as low_freq_factor");
    visit("beta_fast", self.beta_fast, "yarn: as high_freq_factor");
    visit("original_max_position_embeddings", self.original_max_position_embeddings,
          "context of the training before the scaling");
    visit("attention_factor", self.attention_factor,
          "yarn, longrope: factor of cosines and sines; 0: that of the type",
          zero_or_between(1e-6, 1e6));
    visit(
        "mscale", self.mscale,
        "yarn: the factor of cosines and sines is g(mscale) / g(mscale_all_dim), with g(m) = 0.1 * "
        "m * ln(factor) + 1; 0: g(1)",
        zero_or_between(1e-6, 1e6));
    visit("mscale_all_dim", self.mscale_all_dim,
          "yarn: with latent attention, scores are also multiplied by g(mscale_all_dim)^2",
          zero_or_between(1e-6, 1e6));
    visit("truncate", self.truncate, "yarn: round the bounds of dimensions to integers");
    visit("short_factor", self.short_factor,
          "longrope: divisors of the frequencies up to the original context, one per pair");
    visit("long_factor", self.long_factor, "longrope: the same in longer sequences");
  }
};

// Multi-head latent attention (DeepSeek-AI 2024): keys and values are projections of a latent
// vector per token. A head's query and key have a part that RoPE rotates, which all heads share in
// keys, and a part without position.
struct LatentConfig {
  int64_t query_rank = 0, key_value_rank = 0;
  int64_t nope_width = 0, rope_width = 0, value_width = 0;

  bool exists() const { return key_value_rank > 0; }
  int64_t key_width() const { return nope_width + rope_width; }
  bool operator==(const LatentConfig&) const = default;

  static void fields(auto& self, auto&& visit) {
    visit("key_value_rank", self.key_value_rank,
          "width of the latent vector of keys and values; 0: no latent attention");
    visit("query_rank", self.query_rank,
          "width of the latent vector of queries; 0: queries are projected from the hidden states");
    visit("nope_width", self.nope_width, "dimensions of a head's query and key without RoPE");
    visit("rope_width", self.rope_width, "dimensions of a head's query and key with RoPE");
    visit("value_width", self.value_width, "dimensions of a head's value");
  }
};

// The routers of a mixture of experts; ir/ops/router.h has the formulas.
struct RouterConfig {
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = true;
  double scale = 1;
  int64_t groups = 1, groups_chosen = 1;
  GroupScore group_score = GroupScore::kTopTwo;
  double balance_loss = 0, z_loss = 0;
  bool bias = false;
  double bias_rate = 1e-3;
  double capacity_factor = 0;

  static void fields(auto& self, auto&& visit) {
    visit("score", self.score, "softmax | sigmoid: the function that turns logits into scores");
    visit("renormalize", self.renormalize, "divide the weights of a token's experts by their sum");
    visit("scale", self.scale, "factor of the weights of a token's experts");
    visit("groups", self.groups, "number of groups into which the experts are divided");
    visit("groups_chosen", self.groups_chosen,
          "a token's experts are chosen from this many groups, the best ones");
    visit("group_score", self.group_score,
          "top_two | maximum: the score of a group is the sum of its two best experts, or its best "
          "one");
    visit("balance_loss", self.balance_loss,
          "coefficient of the load-balancing loss per sequence and layer; 0: none",
          between(0, kHuge));
    visit("z_loss", self.z_loss,
          "coefficient of the z-loss, the mean of logsumexp(logits)^2 per layer; 0: none",
          between(0, kHuge));
    visit("bias", self.bias, "choose experts by score + bias, with biases that follow the load");
    visit("bias_rate", self.bias_rate, "change of a bias per step", between(0, kHuge));
    visit(
        "capacity_factor", self.capacity_factor,
        "each expert accepts at most ceil(tokens x experts_per_token / experts x capacity_factor) "
        "tokens of a sequence and drops later ones, except in generation; 0: no token is dropped");
  }
};

// Maximal update parametrization (Yang et al. 2022). Hyper-parameters are those of a model of width
// `base`; one that is m times as wide has initial values, factors and learning rates by which they
// stay right. docs/decisions/mup.md has the rules.
struct MupConfig {
  int64_t base = 0;             // 0: standard parametrization
  int64_t base_head_width = 0;  // 0: that of this model

  static void fields(auto& self, auto&& visit) {
    visit("base", self.base,
          "width (hidden) of the model whose hyper-parameters are used; 0: standard "
          "parametrization");
    visit("base_head_width", self.base_head_width,
          "dimensions of its heads, if they differ from this model's; 0: the same");
  }
};

}  // namespace tessera::model
