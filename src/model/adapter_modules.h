// The matrices of a model that adapters can change, with the names of their Hugging Face modules:
// the names that PEFT's target_modules and files use. The experts of a layer are not modules in
// transformers but two parameters with one matrix per expert, which PEFT's target_parameters name:
// "mlp.experts.gate_up_proj" and "mlp.experts.down_proj". This file treats each of them as a
// module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "model/hf_names.h"
#include "model/model_config.h"

namespace tessera::model {

// Returns true for GEMMs that can have an adapter: those with a weight, except a router's, whose
// output is f32. Returns false for the op `experts`, although its matrices can have adapters.
bool is_adaptable(const Graph& graph, const Op& op);

// A matrix of one layer: a weight of a GEMM, or one part of a packed weight; or the up or down
// matrices of all experts of a layer, [E, outputs…, inputs].
struct AdapterModule {
  HfTensor tensor;             // the weight on both sides; `ours` is "layer3.attn.qkv.weight"
  WeightPart part;             // part of a packed weight; else all of it, without a name
  int64_t outputs = 1;         // number of leading dimensions of our weight that are not its inputs
  int64_t experts = 0;         // number of experts, each with one matrix; 0: a single matrix
  std::string ours() const;    // "layer3.attn.qkv.q": the adapter's weights are named after it
  std::string module() const;  // "model.layers.3.self_attn.q_proj"

  // Return the adapter's weights on both sides: A [rank, in], B [out, rank], and DoRA's magnitudes
  // [out]. `tensor` describes how our dimensions follow from Hugging Face's. For experts, our A and
  // B have one matrix per expert. PEFT's A is [E · rank, in], in which the rows of an expert are
  // contiguous; its B is [out, rank · E], in which the columns of an expert have a stride of E.
  HfTensor a(int64_t rank) const;
  HfTensor b(int64_t rank) const;
  HfTensor magnitude() const;
};

// The suffixes of the names of an adapter's weights: ours and PEFT's.
inline constexpr std::string_view kLoraA = ".lora_a", kLoraB = ".lora_b",
                                  kLoraMagnitude = ".lora_magnitude";
// Returns true for our name of an adapter's weight.
bool is_adapter(std::string_view name);

// Returns the modules of all layers, in the order of hf_tensors(). Several entries may have one
// module: the rows of a tensor that Tessera keeps in several weights, or packs in another order.
std::vector<AdapterModule> adapter_modules(const ModelConfig& model);

// Returns the name of the weight or module after the number of its layer:
// "model.layers.3.self_attn.q_proj" is "self_attn.q_proj".
std::string_view after_layer(std::string_view name);

// Returns the name of a weight with the number of its layer removed: "layer3.mlp.up.weight" is
// "layer.mlp.up.weight". Modules of multi-token prediction keep theirs: "mtp0.mlp.up.weight".
std::string without_layer(std::string_view name);

// Returns true for a weight of a module of multi-token prediction: "mtp0.mlp.up.weight".
bool is_of_prediction(std::string_view weight);

// Returns true for the name of a parameter of experts: "model.layers.3.mlp.experts.down_proj".
bool is_of_experts(std::string_view module);

// Returns true if PEFT's target_modules entry `target` names the module: it is equal to its name or
// to the last components of it. The name of a parameter of experts must include its module:
// "experts.down_proj" names it, while "down_proj" names only that of an MLP.
bool names_module(std::string_view target, std::string_view module);

}  // namespace tessera::model
