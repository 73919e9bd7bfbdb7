// Reads a Hugging Face config.json into a ModelConfig, and writes one. The family reads its own
// keys; keys that change what the model computes in an unsupported way are errors, never ignored.
//
// Two rules make an import safe. A key whose value would change the computation is either
// implemented or an error that names it. And the configuration that was read passes the same checks
// as one from a run file (check_model), so an impossible file fails here with its name, before any
// weight is read.
#include "model/hf_config.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "model/check_model.h"
#include "model/family.h"
#include "model/presets.h"

namespace tessera::model {
namespace {

void check_common(const HfReader& in, const ModelFamily& family) {
  const bool mxfp4 =
      family.hf_mxfp4 && in.find("quantization_config") &&
      in.object("quantization_config").get<std::string>("quant_method", "") == "mxfp4";
  if (in.find("quantization_config") && !mxfp4)
    in.refuse("quantization_config", "given",
              "quantized weights cannot be trained. Export the model in f32, bf16 or f16 first; "
              "lora.quantize stores it in 4 bits");
  in.must_be("add_cross_attention", false, "cross attention in this family");
}

const ModelFamily& family_of(const HfReader& in) {
  const auto type = in.get<std::string>("model_type", "");
  std::vector<std::string_view> known;
  for (const ModelFamily* f : all_families()) {
    if (f->hf_type == type || (!type.empty() && f->hf_type_alias == type)) return *f;
    known.push_back(f->hf_type);
    if (!f->hf_type_alias.empty()) known.push_back(f->hf_type_alias);
  }
  in.refuse("model_type", type.empty() ? "absent" : type,
            fmt::format("this version reads {}", fmt::join(known, ", ")));
}

// Adds the keys that all families have in common, at the end, as transformers writes them.
void add_common(Tree& out, const ModelConfig& m, std::optional<int64_t> end_of_text, DType dtype) {
  out.set("initializer_range", Tree(m.init_std));
  if (m.encoder_layers == 0) {
    out.set("bos_token_id", end_of_text ? Tree(*end_of_text) : Tree());
    // The class of a family may have another by default, even outside of the vocabulary.
    out.set("pad_token_id", Tree());
  }
  out.set("eos_token_id", end_of_text ? Tree(*end_of_text) : Tree());
  out.set("tie_word_embeddings", Tree(m.tied_embeddings));
  out.set("vocab_size", Tree(m.padded_vocabulary()));
  out.set("use_cache", Tree(true));
  const char* name = dtype == DType::kBF16  ? "bfloat16"
                     : dtype == DType::kF16 ? "float16"
                                            : "float32";
  out.set("torch_dtype", Tree(std::string(name)));
}

}  // namespace

ModelConfig model_from_hf_config(const Tree& config, const std::string& source) {
  if (!config.as_members()) throw Error("{}: not a JSON object, expected a config.json", source);
  const HfReader in(config, source);
  const ModelFamily& rule = family_of(in);
  check_common(in, rule);
  ModelConfig m;
  m.family = rule.family;
  if (rule.defaults != nullptr) rule.defaults(m);
  rule.hf_read(in, m);
  m.vocabulary_multiple = 1;
  ModelConfig derived = m;
  derive_sizes(derived);
  try {
    check_model(derived);
  } catch (const Error& e) {
    throw Error("{}: describes a model that cannot exist: {}", source, e.what());
  }
  return m;
}

void tie_missing_head(ModelConfig& model) {
  if (!rule_of(model.family).hf_ties_missing_head || model.tied_embeddings) return;
  model.tied_embeddings = true;
  model.scaled_head = false;
}

std::string hf_mtp_tensor(const ModelConfig& model) {
  return fmt::format("model.layers.{}.eh_proj.weight", model.layers);
}

Tree hf_config_of_model(const ModelConfig& model, std::optional<int64_t> end_of_text, DType dtype) {
  Tree out = rule_of(model.family).hf_write(model);
  add_common(out, model, end_of_text, dtype);
  return out;
}

Tree hf_generation_config(const ModelConfig& model, std::optional<int64_t> end_of_text) {
  Tree out = Tree::object();
  out.set("_from_model_config", Tree(true));
  if (model.encoder_layers > 0)
    for (const char* key : {"decoder_start_token_id", "pad_token_id"})
      out.set(key, Tree(int64_t{0}));
  else if (end_of_text)
    out.set("bos_token_id", Tree(*end_of_text));
  if (end_of_text) out.set("eos_token_id", Tree(*end_of_text));
  return out;
}

}  // namespace tessera::model
