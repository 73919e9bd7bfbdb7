// What LLaMA's file has in common with families that are built like it: its blocks but for the
// product that makes the heads, its keys of config.json and its names of tensors.
#pragma once

#include "model/family.h"

namespace tessera {

// Makes packed queries, keys and values [B, T, K, G+2, D] of the normed stream [B, T, F]: a group
// of G queries, their key and their value for each of the K key/value heads.
using LlamaHeads = ValueId (*)(BlockWriter& w, ValueId normed);
Shape packed_heads(const ModelConfig& m);  // [K, G+2, D]

void llama_forward(Graph& graph, const BatchValues& batch, const ModelConfig& m, LlamaHeads heads);
void llama_defaults(ModelConfig& m);

// What a config.json does not say stays as it is in `m`.
void read_llama(const HfReader& in, ModelConfig& m);
void write_llama(const ModelConfig& m, Tree& out);

void add_llama_tensors(const ModelConfig& m, HfTensorList& list);
bool is_llama_buffer(std::string_view their_name);

}  // namespace tessera
