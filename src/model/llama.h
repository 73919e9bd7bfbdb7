// What LLaMA's file has in common with families that are built like it: its blocks, its keys of
// config.json and its names of tensors.
#pragma once

#include "model/family.h"

namespace tessera::model {

// `head_biases`: on queries, keys and values.
void llama_forward(Graph& graph, const BatchValues& batch, const ModelConfig& m, bool head_biases);
void llama_defaults(ModelConfig& m);

// What a config.json does not say stays as it is in `m`.
void read_llama(const HfReader& in, ModelConfig& m);
void write_llama(const ModelConfig& m, Tree& out);

void add_llama_tensors(const ModelConfig& m, HfTensorList& list);
bool is_llama_buffer(std::string_view their_name);

}  // namespace tessera::model
