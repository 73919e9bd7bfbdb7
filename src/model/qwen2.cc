// Qwen2 and Qwen2.5 (Yang et al. 2024): LLaMA with a bias on queries, keys and values.
//
//   ours                        Hugging Face
//   layerI.attn.qkv.bias        model.layers.I.self_attn.q_proj.bias [K·G·D], k_proj.bias [K·D],
//     [K,G+2,D]                 v_proj.bias: a group of G queries, their key, their value
//   all else                    as in llama.cc
#include "model/llama.h"

namespace tessera::model {
namespace {

void forward(Graph& graph, const BatchValues& batch, const ModelConfig& m) {
  llama_forward(graph, batch, m, true);
}

void defaults(ModelConfig& m) {
  llama_defaults(m);
  m.rope_theta = 1'000'000;
  m.norm_epsilon = 1e-6;
}

void tied(ModelConfig& m) { m.tied_embeddings = true; }

// Sizes and contexts of the config.json files of Qwen/Qwen2-* and Qwen/Qwen2.5-*.
constexpr Preset kPresets[] = {
    {"qwen2-0.5b", 24, 896, 14, 2, 4864, 151936, 1, 131072, tied},
    {"qwen2-1.5b", 28, 1536, 12, 2, 8960, 151936, 1, 131072, tied},
    {"qwen2-7b", 28, 3584, 28, 4, 18944, 152064, 1, 131072},
    {"qwen2-72b", 80, 8192, 64, 8, 29568, 152064, 1, 131072},
    {"qwen2.5-3b", 36, 2048, 16, 2, 11008, 151936, 1, 32768, tied},
    {"qwen2.5-14b", 48, 5120, 40, 8, 13824, 152064, 1, 131072},
    {"qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064, 1, 131072},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 151936;
  m.hidden = 4096;
  m.layers = m.heads = m.kv_heads = 32;
  m.feed_forward = 22016;
  m.context = 32768;
  m.rope_theta = 10000;
  read_llama(in, m);
  in.must_be("use_sliding_window", false, "attention to a window of the text");
  if (const Tree* kinds = in.find("layer_types"); kinds && kinds->as_list())
    for (const Tree& kind : *kinds->as_list())
      if (!kind.as_string() || *kind.as_string() != "full_attention")
        in.refuse("layer_types", to_json(kind), "Tessera computes full_attention only");
  read_rotary(in, {}, Ropes::kUnscaled, m);
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("Qwen2ForCausalLM", "qwen2");
  write_llama(m, out);
  out.set("use_sliding_window", Tree(false));
  return out;
}

void add_tensors(const ModelConfig& m, HfTensorList& list) {
  const Shape all{key_value_heads(m), m.heads / key_value_heads(m) + 2, m.head_size()};
  const int64_t K = all[0], G = all[1] - 2, D = all[2];
  add_llama_tensors(m, list);
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string ours = fmt::format("layer{}.attn.qkv.bias", i);
    const std::string theirs = fmt::format("model.layers.{}.self_attn.", i);
    list.part(ours, all, {0, 0, 0}, theirs + "q_proj.bias", {K * G * D}, {K, G, D});
    list.part(ours, all, {0, G, 0}, theirs + "k_proj.bias", {K * D}, {K, 1, D});
    list.part(ours, all, {0, G + 1, 0}, theirs + "v_proj.bias", {K * D}, {K, 1, D});
  }
}

}  // namespace

const FamilyRule kQwen2Family = {.family = Family::kQwen2,
                                 .forward = forward,
                                 .defaults = defaults,
                                 .presets = kPresets,
                                 .turns = true,
                                 .groups_heads = true,
                                 .hf_type = "qwen2",
                                 .hf_prefix = "model.",
                                 .hf_head = "lm_head.weight",
                                 .hf_read = read_hf,
                                 .hf_write = write_hf,
                                 .hf_tensors = add_tensors,
                                 .hf_is_buffer = is_llama_buffer,
                                 .hf_cuts_words = true};

}  // namespace tessera::model
