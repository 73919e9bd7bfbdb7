// Phi-3 and Phi-4 (Abdin et al. 2024): LLaMA with rotary embeddings on a part of each head,
// LongRoPE, and fused matrices in its files.
#include <algorithm>

#include "model/hf_attention.h"
#include "model/llama_like.h"

namespace tessera::model {
namespace {

constexpr LlamaForm kForm = {.fused_files = true};

void short_context(ModelConfig& m) { m.window = 2047; }
void phi4(ModelConfig& m) { m.rope_theta = 250'000; }

// Sizes of the config.json files of microsoft/Phi-3-*-4k-instruct and microsoft/phi-4.
constexpr Preset kPresets[] = {
    {"phi3-mini-4k", 32, 3072, 32, 32, 8192, 32064, 1, 4096, short_context},
    {"phi3-medium-4k", 40, 5120, 40, 10, 17920, 32064, 1, 4096, short_context},
    {"phi4-14b", 40, 5120, 40, 10, 17920, 100352, 1, 16384, phi4},
};

void read_hf(const HfReader& in, ModelConfig& m) {
  m.vocabulary = 32064;
  m.hidden = 3072;
  m.layers = m.heads = 32;
  m.feed_forward = 8192;
  m.context = 4096;
  m.norm_epsilon = 1e-5;
  read_llama(in, m);
  read_silu(in);
  m.dropout = in.number("resid_pdrop", 0, 0, 1);
  m.embedding_dropout = 0;  // transformers does not read embd_pdrop
  m.window = in.find("sliding_window") ? in.size("sliding_window", 1) : 0;
  read_rotary(in, {.rotary_pct = "partial_rotary_factor"}, RopeScalingSupport::kPhi3, m);
}

// transformers 4 expects exactly three keys in rope_scaling, 5 takes more.
Tree write_longrope(const ModelConfig& m) {
  const RopeScalingConfig& s = m.rope_scaling;
  Tree out = rope_scaling_tree(s);
  if (s.rope_type != RopeType::kLongrope) return out;
  Tree least = Tree::object();
  least.set("type", Tree(std::string("longrope")));
  for (const char* key : {"short_factor", "long_factor", "attention_factor"})
    if (const Tree* t = out.find(key)) least.set(key, *t);
  const double derived =
      static_cast<double>(m.context) / static_cast<double>(s.original_max_position_embeddings);
  if (s.factor != std::max(1.0, derived)) least.set("factor", Tree(s.factor));
  return least;
}

Tree write_hf(const ModelConfig& m) {
  Tree out = hf_config_start("Phi3ForCausalLM", "phi3");
  write_llama(m, out);
  out.set("hidden_act", Tree(std::string("silu")));
  out.set("resid_pdrop", Tree(m.dropout));
  out.set("embd_pdrop", Tree(m.dropout_of_embeddings()));
  out.set("sliding_window", m.window > 0 ? Tree(m.window) : Tree());
  out.set("rope_theta", Tree(m.rope_theta));
  out.set("rope_scaling", write_longrope(m));
  out.set("partial_rotary_factor", Tree(m.rotary_pct));
  out.set("original_max_position_embeddings",
          Tree(m.rope_scaling.rope_type == RopeType::kLongrope
                   ? m.rope_scaling.original_max_position_embeddings
                   : m.context));
  return out;
}

constexpr ModelFamily rule() {
  ModelFamily rule = llama_like<kForm>(Family::kPhi3);
  rule.presets = kPresets;
  rule.hf_type = "phi3";
  rule.hf_read = read_hf;
  rule.hf_write = write_hf;
  return rule;
}

}  // namespace

const ModelFamily kPhi3Family = rule();

}  // namespace tessera::model
