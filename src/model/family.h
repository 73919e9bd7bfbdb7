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

struct FamilyRule {
  Family family;
  void (*forward)(Graph&, const BatchValues&, const ModelConfig&) = nullptr;
  void (*defaults)(ModelConfig&) =
      nullptr;  // what differs from ModelConfig's own; nullptr: nothing
  std::span<const Preset> presets = {};

  bool encodes = false;       // has an encoder beside its decoder
  bool turns = false;         // has rotary positions
  bool has_experts = false;   // its layers may have experts
  bool groups_heads = false;  // several queries may share a key/value head
  bool copies_heads = true;   // more tensor ranks than key/value heads may share these
  bool chooses_gelu = true;   // computes model.gelu

  std::string_view hf_type = {};    // model_type in config.json
  std::string_view hf_also = {};    // another that is read as this one
  std::string_view hf_prefix = {};  // of tensors; files of the bare model have names without it
  std::string_view hf_head = {};    // the head's tensor, absent or a copy where embeddings are tied
  // A folder without a head has one that is tied and not scaled, whatever its config.json says.
  bool hf_ties_missing_head = false;
  std::string_view hf_copies = {};  // ends the names of the embedding's copies, beside the head's
  void (*hf_read)(const HfReader&, ModelConfig&) = nullptr;
  Tree (*hf_write)(const ModelConfig&) = nullptr;
  void (*hf_tensors)(const ModelConfig&, HfTensorList&) = nullptr;
  bool (*hf_is_buffer)(std::string_view name) = nullptr;  // of older files: masks and the like
  void (*hf_check_start)(const HfReader&) = nullptr;      // of what generation_config.json says
  // Of a SentencePiece model, by which transformers finds the class that reads it.
  const char *hf_pieces = "tokenizer.model", *hf_tokenizer = "LlamaTokenizer";
  // The class that AutoTokenizer takes cuts texts into words its own way, whatever tokenizer.json
  // says.
  bool hf_cuts_words = false;
};

std::span<const FamilyRule* const> all_families();
const FamilyRule& rule_of(Family family);

extern const FamilyRule kGemma2Family, kGemma3Family, kGpt2Family, kLlamaFamily, kMistralFamily,
    kMixtralFamily, kNeoxFamily, kOlmo2Family, kPhi3Family, kQwen2Family, kQwen3Family,
    kQwen3MoeFamily, kSmollm3Family, kT5Family;

}  // namespace tessera::model
