// A model family: its forward, its known sizes, what it can do, and how Hugging Face writes it
// down. One per file, related ones together; families.cc lists them.
#pragma once

#include <span>
#include <string_view>

#include "base/tree.h"
#include "model/forward.h"
#include "model/hf_names.h"
#include "model/hf_reader.h"

namespace tessera::model {

// A published model: its sizes as ModelConfig has them, and what else it has of its own.
struct Preset {
  const char* name;
  int64_t layers, hidden, heads, kv_heads, feed_forward;
  int64_t vocabulary, vocabulary_multiple, context;
  void (*more)(ModelConfig&) = nullptr;
};

struct ModelFamily {
  Family family;
  void (*forward)(Graph&, const BatchValues&, const ModelConfig&) = nullptr;
  // Sets the defaults that differ from ModelConfig's; nullptr: none.
  void (*defaults)(ModelConfig&) = nullptr;
  std::span<const Preset> presets = {};

  bool has_encoder = false;   // has an encoder and a decoder
  bool has_rope = false;      // has RoPE
  bool has_experts = false;   // its layers may have experts
  bool supports_gqa = false;  // several queries may share a key/value head
  bool latent = false;        // has multi-head latent attention
  bool copies_heads = true;   // KV heads may be replicated over tensor ranks
  bool chooses_gelu = true;   // model.gelu selects the activation
  bool may_have_mtp = false;  // may have modules of multi-token prediction

  std::string_view hf_type = {};        // model_type in config.json
  std::string_view hf_type_alias = {};  // another model_type that is read as this one
  std::string_view hf_prefix = {};      // prefix of tensor names; absent in files of the bare model
  std::string_view hf_head = {};  // the head's tensor, absent or a copy where embeddings are tied
  // If the folder has no LM head, it is tied and not scaled, even if config.json differs.
  bool hf_ties_missing_head = false;
  // Matrices may be stored in MXFP4, [experts, outputs, inputs], as NAME_blocks and NAME_scales
  // (checkpoint/mxfp4.h).
  bool hf_mxfp4 = false;
  // Suffix of tensors that copy the embedding, in addition to hf_head.
  std::string_view hf_copies = {};
  void (*hf_read)(const HfReader&, ModelConfig&) = nullptr;
  Tree (*hf_write)(const ModelConfig&) = nullptr;
  void (*hf_tensors)(const ModelConfig&, HfTensorList&) = nullptr;
  bool (*hf_is_buffer)(std::string_view name) = nullptr;  // buffers of older files, such as masks
  void (*hf_check_start)(const HfReader&) = nullptr;      // checks generation_config.json
  // File name and class name of a SentencePiece tokenizer in transformers.
  const char *hf_tokenizer_file = "tokenizer.model", *hf_tokenizer = "LlamaTokenizer";
  // The class that AutoTokenizer chooses replaces the pre-tokenizer of tokenizer.json.
  bool hf_overrides_pretokenizer = false;
};

std::span<const ModelFamily* const> all_families();
const ModelFamily& rule_of(Family family);

extern const ModelFamily kDeepseekV2Family, kDeepseekV3Family, kGemma2Family, kGemma3Family,
    kGpt2Family, kGptOssFamily, kLlamaFamily, kMistralFamily, kMixtralFamily, kNeoxFamily,
    kOlmo2Family, kPhi3Family, kQwen2Family, kQwen3Family, kQwen3MoeFamily, kSmollm3Family,
    kT5Family;

}  // namespace tessera::model
