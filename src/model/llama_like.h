// Families built like LLaMA share their blocks, their keys of config.json and their names of
// tensors. A LlamaForm describes the differences between them; the rest is in llama_like.cc.
#pragma once

#include "model/family.h"

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
  bool fused_files = false;       // one tensor for queries, keys and values, one for gate and up
};

void llama_forward(Graph& graph, const BatchValues& batch, const ModelConfig& m,
                   const LlamaForm& form);
void llama_defaults(ModelConfig& m);

// Reads config.json. Members of `m` whose keys are absent keep their values.
void read_llama(const HfReader& in, ModelConfig& m);
void read_silu(const HfReader& in);  // rejects other activations
void write_llama(const ModelConfig& m, Tree& out);

void add_llama_tensors(const ModelConfig& m, const LlamaForm& form, HfTensorList& list);

// The names in a folder of Hugging Face of the router and the experts of a layer: below
// model.layers.I.<module>, gate.weight is the router and experts.J.<gate, value, down>.weight are
// the matrices of expert J.
struct ExpertNames {
  const char *module, *gate, *value, *down;
};
// The tensors of all layers with experts.
void add_expert_tensors(const ModelConfig& m, const ExpertNames& names, HfTensorList& list);
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
  rule.supports_gqa = true;
  rule.chooses_gelu = kForm.gelu_gate;
  rule.copies_heads = kForm.head_norm != HeadNormForm::kWhole;
  rule.hf_prefix = "model.";
  rule.hf_head = "lm_head.weight";
  rule.hf_tensors = [](const ModelConfig& m, HfTensorList& list) {
    add_llama_tensors(m, kForm, list);
  };
  rule.hf_is_buffer = is_llama_buffer;
  return rule;
}

}  // namespace tessera::model
