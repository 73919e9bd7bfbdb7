// How the tensors of our models lie in Hugging Face's files: names, transposes, regrouping.
//
// Ours are [out dims…, in dims…], row-major (V vocabulary, F hidden, H heads, D head size, M the
// MLP's inner width). Each of theirs is a reshape and a transpose of one of ours:
//
//   ours                      GPT-NeoX: gpt_neox.…, Linear is [out, in]
//   embed.weight [V,F]        embed_in.weight
//   layerI.norm1.gain, .bias  layers.I.input_layernorm.weight, .bias
//   layerI.attn.qkv.weight    layers.I.attention.query_key_value.weight [H·3·D,F]: the same order
//     [H,3,D,F]
//   layerI.attn.out.weight    layers.I.attention.dense.weight [F,H·D]
//   layerI.norm2.gain, .bias  layers.I.post_attention_layernorm.weight, .bias
//   layerI.mlp.up.weight      layers.I.mlp.dense_h_to_4h.weight [M,F]
//   layerI.mlp.down.weight    layers.I.mlp.dense_4h_to_h.weight [F,M]
//   head.norm.gain, .bias     final_layer_norm.weight, .bias
//   head.weight [V,F]         embed_out.weight, without the prefix
//
//   ours                      GPT-2: transformer.…, Conv1D is [in, out]
//   embed.weight [V,F]        wte.weight
//   embed.position.weight     wpe.weight [context,F]
//   layerI.norm1.gain, .bias  h.I.ln_1.weight, .bias
//   layerI.attn.qkv.weight    h.I.attn.c_attn.weight [F,3·H·D]: q, then k, then v
//   layerI.attn.out.weight    h.I.attn.c_proj.weight [H·D,F]
//   layerI.norm2.gain, .bias  h.I.ln_2.weight, .bias
//   layerI.mlp.up.weight      h.I.mlp.c_fc.weight [F,M]
//   layerI.mlp.down.weight    h.I.mlp.c_proj.weight [M,F]
//   head.norm.gain, .bias     ln_f.weight, .bias
//   head.weight [V,F]         lm_head.weight, without the prefix
//
// head.weight is absent where embeddings are tied. Source: transformers' modeling_gpt_neox.py and
// modeling_gpt2.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "model/model_config.h"

namespace tessera {

struct HfTensor {
  std::string ours, theirs;
  Shape shape;        // ours
  Shape their_shape;  // as the file says
  Shape view;         // theirs, reshaped: one extent for each of our dimensions
  // ours = theirs.reshape(view).transpose(axes), in numpy's terms
  std::vector<int> axes;
};

// Every tensor of the model. `theirs` is the full name ("transformer.h.0.ln_1.weight").
std::vector<HfTensor> hf_tensors(const ModelConfig& model);

// The axes of the way back: theirs.reshape(view) = ours.transpose(inverse(axes)).
std::vector<int> inverse(const std::vector<int>& axes);

// "transformer." or "gpt_neox.": files of the bare model have names without it.
std::string_view hf_prefix(Family family);

// Tensors that older files carry and that are no weights: attention masks, rotary frequencies;
// and the head's copy of the embedding where the two are tied.
bool hf_is_buffer(const ModelConfig& model, std::string_view their_name);

// The MLP's inner width: feed_forward, or 4 × hidden where it is 0.
int64_t inner_width(const ModelConfig& model);

}  // namespace tessera
