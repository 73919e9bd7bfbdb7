// DeepSeek-V2 (DeepSeek-AI 2024) and DeepSeek-V3 (2025): LLaMA's layers with latent attention and,
// but for the first layers, experts next to a shared MLP. V2 has a softmax router, V3 a sigmoid
// router whose choice is by score + bias.
//
//   ours                                 Hugging Face: model.layers.I.…, Linear is [out, in]
//   layerI.attn.q.weight [H,N+R,F]       self_attn.q_proj.weight [H·(N+R),F], without query_rank
//   layerI.attn.q_down.weight [Q,F]      self_attn.q_a_proj.weight
//   layerI.attn.q_norm.gain [Q]          self_attn.q_a_layernorm.weight
//   layerI.attn.q_up.weight [H,N+R,Q]    self_attn.q_b_proj.weight [H·(N+R),Q]
//   layerI.attn.kv_down.weight [C,F],    self_attn.kv_a_proj_with_mqa.weight [C+R,F]: one after the
//     attn.k_rope.weight [R,F]           other
//   layerI.attn.kv_norm.gain [C]         self_attn.kv_a_layernorm.weight
//   layerI.attn.kv_up.weight [H,N+V,C]   self_attn.kv_b_proj.weight [H·(N+V),C]
//   layerI.attn.out.weight [F,H,V]       self_attn.o_proj.weight [F,H·V]
//   layerI.mlp.shared.{up,down}.weight   mlp.shared_experts.…, as an MLP in llama_like.cc
//   layerI.mlp.router.bias [E]           mlp.gate.e_score_correction_bias
//   router and experts                   as in qwen3_moe.cc
//   mtpD.…, multi-token prediction       model.layers.(L+D).…, with a layer's names and:
//   mtpD.embedding_norm.gain             enorm.weight
//   mtpD.hidden_norm.gain                hnorm.weight
//   mtpD.projection.weight [F,2,F]       eh_proj.weight [F,2·F]: the embedding's half first
//   mtpD.norm.gain                       shared_head.norm.weight
//   all else                             as in llama_like.cc
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm = {.latent = true};
constexpr ExpertNames kNames = {"mlp", "gate_proj", "up_proj", "down_proj"};

std::vector<int64_t> first_layers(int64_t count) {
  std::vector<int64_t> layers(static_cast<size_t>(count));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.norm_epsilon = 1e-6;
  m.latent = {.query_rank = 0,
              .key_value_rank = 512,
              .nope_width = 128,
              .rope_width = 64,
              .value_width = 128};
  m.experts = 8;
  m.experts_per_token = 2;
}

void defaults_v2(ModelConfig& m) {
  defaults(m);
  m.router.renormalize = false;
  m.router.group_score = GroupScore::kMaximum;
}

void defaults_v3(ModelConfig& m) {
  defaults(m);
  m.router.score = RouterScore::kSigmoid;
  m.router.bias = true;
}

// Sizes of the config.json files of deepseek-ai.
void more(ModelConfig& m, int64_t dense, int64_t experts, int64_t per_token, int64_t width,
          int64_t shared, double mscale) {
  m.dense_layers = first_layers(dense);
  m.experts = experts;
  m.experts_per_token = per_token;
  m.expert_feed_forward = width;
  m.shared_feed_forward = shared * width;
  m.rope_scaling.rope_type = RopeType::kYarn;
  m.rope_scaling.factor = 40;
  m.rope_scaling.original_max_position_embeddings = 4096;
  m.rope_scaling.mscale = m.rope_scaling.mscale_all_dim = mscale;
}

void v2_lite(ModelConfig& m) { more(m, 1, 64, 6, 1408, 2, 0.707); }

void v2(ModelConfig& m) {
  more(m, 1, 160, 6, 1536, 2, 0.707);
  m.latent.query_rank = 1536;
  m.router.groups = 8;
  m.router.groups_chosen = 3;
  m.router.scale = 16;
}

void v3(ModelConfig& m) {
  more(m, 3, 256, 8, 2048, 1, 1);
  m.latent.query_rank = 1536;
  m.router.groups = 8;
  m.router.groups_chosen = 4;
  m.router.scale = 2.5;
}

constexpr Preset kV2Presets[] = {
    {"deepseek-v2-lite", 27, 2048, 16, 16, 10944, 102400, 1, 163840, v2_lite},
    {"deepseek-v2", 60, 5120, 128, 128, 12288, 102400, 1, 163840, v2},
};
constexpr Preset kV3Presets[] = {
    {"deepseek-v3", 61, 7168, 128, 128, 18432, 129280, 1, 163840, v3},
};

void read_latent(const HfReader& in, LatentConfig& a) {
  a.query_rank = in.is_null("q_lora_rank") ? 0 : in.size("q_lora_rank", 1536);
  a.key_value_rank = in.size("kv_lora_rank", 512);
  a.nope_width = in.count("qk_nope_head_dim", 128);
  a.rope_width = in.size("qk_rope_head_dim", 64);
  a.value_width = in.size("v_head_dim", 128);
  if (a.rope_width % 2 != 0)
    in.refuse("qk_rope_head_dim", std::to_string(a.rope_width), "expected an even number");
  if (a.value_width > a.key_width())
    in.refuse("v_head_dim", std::to_string(a.value_width),
              fmt::format("Tessera computes values that are at most as wide as keys, which have {}",
                          a.key_width()));
}

// transformers multiplies scores by the temperature of YaRN under other kinds of scaling, too.
void check_temperature(const HfReader& in, const RopeScalingConfig& s) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!in.find(key)) continue;
    const HfReader rope = in.object(key);
    if (rope.number("mscale_all_dim", 0, 0, 1e6) != 0 && s.rope_type != RopeType::kYarn)
      rope.refuse("mscale_all_dim", "given", "Tessera computes it with rope_type yarn");
  }
}

void require_value(const HfReader& in, const char* key, const char* expected) {
  const auto found = in.get<std::string>(key, expected);
  if (found != expected)
    in.refuse(key, found, fmt::format("Tessera computes {} in this family", expected));
}

// The keys that both families have, with the defaults of `m`.
void read_deepseek(const HfReader& in, ModelConfig& m) {
  read_latent(in, m.latent);
  m.head_width = m.latent.rope_width;  // the meaning of head_dim in these files
  read_llama(in, m);
  m.head_width = 0;
  if (m.kv_heads != m.heads)
    in.refuse("num_key_value_heads", std::to_string(m.kv_heads),
              fmt::format("heads of latent attention do not share keys. Set it to "
                          "num_attention_heads = {}",
                          m.heads));
  read_silu(in);
  m.experts =
      in.size("n_routed_experts", in.size("num_local_experts", in.size("num_experts", m.experts)));
  m.expert_feed_forward = in.size("moe_intermediate_size", m.expert_feed_forward);
  m.shared_feed_forward *= m.expert_feed_forward;
  m.router.scale = in.number("routed_scaling_factor", m.router.scale, 1e-6, 1e6);
  if (in.size("moe_layer_freq", 1) != 1)
    in.refuse("moe_layer_freq", "given", "Tessera computes experts in every layer after the first");
  read_rotary(in, {}, RopeScalingSupport::kAll, m);
  check_temperature(in, m.rope_scaling);
}

void read_v2(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 102400;
  m.hidden = 4096;
  m.layers = m.heads = 32;
  m.kv_heads = 0;
  m.feed_forward = 11008;
  m.context = 2048;
  m.experts = 64;
  m.expert_feed_forward = 1407;
  m.shared_feed_forward = in.size("n_shared_experts", 2);
  m.router = {.renormalize = false, .group_score = GroupScore::kMaximum};
  read_deepseek(in, m);
  check_heads(in, "num_attention_heads", m);
  if (!in.find("num_experts_per_tok"))
    in.refuse("num_experts_per_tok", "absent", "expected the number of experts per token");
  m.experts_per_token = in.size("num_experts_per_tok", 1);
  m.dense_layers = first_layers(std::min(m.layers, in.count("first_k_dense_replace", 0)));
  require_value(in, "scoring_func", "softmax");
  in.must_be("norm_topk_prob", false, "it for this family, as transformers does not");
  const auto method = in.get<std::string>("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    m.router.groups = in.size("n_group", 1);
    m.router.groups_chosen = in.size("topk_group", 1);
  } else if (method != "greedy") {
    in.refuse("topk_method", method, "Tessera computes greedy and group_limited_greedy");
  }
}

void read_v3(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 129280;
  m.hidden = 7168;
  m.layers = 61;
  m.heads = m.kv_heads = 128;
  m.feed_forward = 18432;
  m.context = 4096;
  m.experts = 256;
  m.expert_feed_forward = 2048;
  m.shared_feed_forward = in.size("n_shared_experts", 1);
  m.router = {.score = RouterScore::kSigmoid, .scale = 2.5, .bias = true};
  read_deepseek(in, m);
  m.experts_per_token = in.size("num_experts_per_tok", 8);
  m.dense_layers = first_layers(std::min(m.layers, in.count("first_k_dense_replace", 3)));
  require_value(in, "scoring_func", "sigmoid");
  in.must_be("rope_interleave", true, "rotary embeddings of halves in this family");
  m.router.renormalize = in.get<bool>("norm_topk_prob", true);
  m.mtp_depth = in.count("num_nextn_predict_layers", in.count("num_mtp_layers", 0));
  m.router.groups = in.size("n_group", 8);
  m.router.groups_chosen = in.size("topk_group", 4);
}

// The keys that both families have.
Tree write_deepseek(const ModelConfig& m, const char* architecture, const char* type) {
  const int64_t width = expert_width(m);
  if (m.shared_feed_forward == 0 || m.shared_feed_forward % width != 0)
    throw Error(
        "{} requires model.shared_feed_forward to be a multiple of model.expert_feed_forward = {}, "
        "but this model has {}. It cannot be exported.",
        architecture, width, m.shared_feed_forward);
  if (m.dense_layers != first_layers(std::ssize(m.dense_layers)))
    throw Error(
        "model.dense_layers = [{}], but {} has its dense layers before all others. This model "
        "cannot "
        "be exported.",
        fmt::join(m.dense_layers, ", "), architecture);
  const LatentConfig& a = m.latent;
  Tree out = hf_config_start(architecture, type);
  write_llama(m, out);
  out.set("head_dim", Tree(a.rope_width));
  out.set("q_lora_rank", a.query_rank > 0 ? Tree(a.query_rank) : Tree());
  out.set("kv_lora_rank", Tree(a.key_value_rank));
  out.set("qk_nope_head_dim", Tree(a.nope_width));
  out.set("qk_rope_head_dim", Tree(a.rope_width));
  out.set("v_head_dim", Tree(a.value_width));
  out.set("n_routed_experts", Tree(m.experts));
  out.set("num_experts_per_tok", Tree(m.experts_per_token));
  out.set("moe_intermediate_size", Tree(width));
  out.set("n_shared_experts", Tree(m.shared_feed_forward / width));
  out.set("first_k_dense_replace", Tree(std::ssize(m.dense_layers)));
  out.set("moe_layer_freq", Tree(int64_t{1}));
  out.set("routed_scaling_factor", Tree(m.router.scale));
  out.set("norm_topk_prob", Tree(m.router.renormalize));
  out.set("scoring_func", Tree(name_of_entry(m.router.score)));
  out.set("n_group", Tree(m.router.groups));
  out.set("topk_group", Tree(m.router.groups_chosen));
  out.set("output_router_logits", Tree(false));
  out.set("hidden_act", Tree(std::string("silu")));
  write_rotary(m, out);
  out.set("attention_bias", Tree(false));
  return out;
}

Tree write_v2(const ModelConfig& m) {
  Tree out = write_deepseek(m, "DeepseekV2ForCausalLM", "deepseek_v2");
  const bool grouped = m.router.groups > 1;
  out.set("topk_method", Tree(std::string(grouped ? "group_limited_greedy" : "greedy")));
  return out;
}

Tree write_v3(const ModelConfig& m) {
  Tree out = write_deepseek(m, "DeepseekV3ForCausalLM", "deepseek_v3");
  out.set("topk_method", Tree(std::string("noaux_tc")));
  out.set("rope_interleave", Tree(true));
  out.set("num_nextn_predict_layers", Tree(m.mtp_depth));
  if (m.mtp_depth > 0 && !has_experts(m, m.layers - 1))
    throw Error(
        "model.mtp_depth = {}, but the last layer has no experts, which DeepseekV3ForCausalLM "
        "requires of the layers of multi-token prediction. This model cannot be exported.",
        m.mtp_depth);
  return out;
}

void add_latent(const ModelConfig& m, const std::string& ours, const std::string& theirs,
                HfTensorList& list) {
  const LatentConfig& a = m.latent;
  const int64_t F = m.hidden, H = m.heads, D = a.key_width(), Q = a.query_rank;
  const int64_t C = a.key_value_rank, R = a.rope_width, V = a.value_width;
  if (Q > 0) {
    list.same(ours + "q_down.weight", theirs + "q_a_proj.weight", {Q, F});
    list.same(ours + "q_norm.gain", theirs + "q_a_layernorm.weight", {Q});
    list.flat(ours + "q_up.weight", theirs + "q_b_proj.weight", {H, D, Q}, {H * D, Q});
  } else {
    list.flat(ours + "q.weight", theirs + "q_proj.weight", {H, D, F}, {H * D, F});
  }
  const std::string down = theirs + "kv_a_proj_with_mqa.weight";
  list.rows(ours + "kv_down.weight", {C, F}, {0, 0}, down, {C + R, F}, 0, {C, F});
  list.rows(ours + "k_rope.weight", {R, F}, {0, 0}, down, {C + R, F}, C, {R, F});
  list.same(ours + "kv_norm.gain", theirs + "kv_a_layernorm.weight", {C});
  const int64_t width = a.nope_width + V;
  list.flat(ours + "kv_up.weight", theirs + "kv_b_proj.weight", {H, width, C}, {H * width, C});
  list.flat(ours + "out.weight", theirs + "o_proj.weight", {F, H, V}, {F, H * V});
}

void add_tensors(const ModelConfig& m, HfTensorList& list) {
  add_llama_tensors(m, kForm, list);
  add_expert_tensors(m, kNames, list);
  for (const FileLayer& layer : file_layers(m)) {
    const auto& [ours, theirs, like] = layer;
    add_latent(m, ours + "attn.", theirs + "self_attn.", list);
    if (!has_experts(m, like)) continue;
    if (m.router.bias)
      list.same(ours + "mlp.router.bias", theirs + "mlp.gate.e_score_correction_bias", {m.experts});
    if (m.shared_feed_forward > 0)
      add_gated_mlp(m, ours + "mlp.shared", theirs + "mlp.shared_experts", m.shared_feed_forward,
                    false, list);
  }
}

// Published files have the embedding and the head again in each module of multi-token prediction.
bool is_buffer(std::string_view name) {
  const bool of_layer = name.starts_with("model.layers.");
  return is_llama_buffer(name) || (of_layer && (name.ends_with(".embed_tokens.weight") ||
                                                name.ends_with(".shared_head.head.weight")));
}

constexpr ModelFamily rule(Family family) {
  ModelFamily rule = llama_like<kForm>(family);
  rule.has_experts = true;
  rule.hf_tensors = add_tensors;
  return rule;
}

constexpr ModelFamily rule_v2() {
  ModelFamily r = rule(Family::kDeepseekV2);
  r.defaults = defaults_v2;
  r.presets = kV2Presets;
  r.hf_type = "deepseek_v2";
  r.hf_read = read_v2;
  r.hf_write = write_v2;
  return r;
}

constexpr ModelFamily rule_v3() {
  ModelFamily r = rule(Family::kDeepseekV3);
  r.defaults = defaults_v3;
  r.presets = kV3Presets;
  r.hf_type = "deepseek_v3";
  r.hf_read = read_v3;
  r.hf_write = write_v3;
  r.hf_is_buffer = is_buffer;
  return r;
}

}  // namespace

const ModelFamily kDeepseekV2Family = rule_v2(), kDeepseekV3Family = rule_v3();

}  // namespace tessera::model
