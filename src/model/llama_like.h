// Families built like LLaMA share their blocks, their keys of config.json and their names of
// tensors. A LlamaForm describes the differences between them; the rest is in llama_like.cc.
#pragma once

#include "model/family.h"
#include "model/layer_parts.h"

namespace tessera::model {

// Where a layer has its norms: before attention and MLP (LLaMA), after both (OLMo 2), or at both
// places (Gemma 2).
enum class NormPlaces : uint8_t { kBefore, kAfter, kBoth };

struct LlamaForm {
  bool head_biases = false;  // on queries, keys and values
  NormPlaces norms = NormPlaces::kBefore;
  GainForm gains = GainForm::kPlain;
  HeadNormForm head_norm = HeadNormForm::kAbsent;
  bool gelu_gate = false;         // model.gelu in place of silu
  bool scaled_embedding = false;  // times the root of the width
  bool latent = false;            // multi-head latent attention
  bool fused_files = false;       // one tensor for queries, keys and values, one for gate and up
  bool out_bias = false;          // on the output of attention
  bool sinks = false;             // a sink per head
  ExpertsForm experts = {};
};

void llama_forward(Graph& graph, const BatchValues& batch, const ModelConfig& m,
                   const LlamaForm& form);
void llama_defaults(ModelConfig& m);

// Reads config.json. Members of `m` whose keys are absent keep their values. `attention_bias`: the
// value that this key must have.
void read_llama(const HfReader& in, ModelConfig& m, bool attention_bias = false);
void read_silu(const HfReader& in);  // rejects other activations
void write_llama(const ModelConfig& m, Tree& out);

// A layer's names on both sides: "layer3." and "model.layers.3.", and the layer of the model that
// it is configured like: itself, or the last one for the modules of multi-token prediction, which
// files number after the model's layers.
struct FileLayer {
  std::string ours, theirs;
  int64_t like = 0;
};
std::vector<FileLayer> file_layers(const ModelConfig& m);

// Latent attention has names that its family adds.
void add_llama_tensors(const ModelConfig& m, const LlamaForm& form, HfTensorList& list);

// Hugging Face's names of a layer's router and experts: below
// model.layers.I.<module>, gate.weight is the router and experts.J.<gate, value, down>.weight are
// the matrices of expert J.
struct ExpertNames {
  const char *module, *gate, *value, *down;
};
// The tensors of all layers with experts, but not of shared MLPs.
void add_expert_tensors(const ModelConfig& m, const ExpertNames& names, HfTensorList& list);
// The tensors of a gated MLP: ours.up.weight and ours.down.weight, theirs.gate_proj.weight,
// theirs.up_proj.weight (or one of both) and theirs.down_proj.weight.
void add_gated_mlp(const ModelConfig& m, const std::string& ours, const std::string& theirs,
                   int64_t inner, bool fused, HfTensorList& list);
// Throws Error unless the router is a softmax over all experts, without groups, biases or a factor.
void check_softmax_router(const RouterConfig& router, const char* architecture);

bool is_llama_buffer(std::string_view their_name);

// Returns the rule of a family like LLaMA with the form `kForm`; the caller sets the rest.
template <const LlamaForm& kForm>
constexpr ModelFamily llama_like(Family family) {
  ModelFamily rule = {.family = family};
  rule.forward = [](Graph& graph, const BatchValues& batch, const ModelConfig& m) {
    llama_forward(graph, batch, m, kForm);
  };
  rule.defaults = llama_defaults;
  rule.has_rope = true;
  rule.supports_gqa = !kForm.latent;
  rule.latent = kForm.latent;
  rule.chooses_gelu = kForm.gelu_gate;
  rule.may_have_mtp = true;
  rule.copies_heads = kForm.head_norm != HeadNormForm::kWhole && !kForm.latent;
  rule.hf_prefix = "model.";
  rule.hf_head = "lm_head.weight";
  rule.hf_tensors = [](const ModelConfig& m, HfTensorList& list) {
    add_llama_tensors(m, kForm, list);
  };
  rule.hf_is_buffer = is_llama_buffer;
  return rule;
}

}  // namespace tessera::model
