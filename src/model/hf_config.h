// config.json of Hugging Face's transformers (versions 4 and 5) and ModelConfig, both ways.
#pragma once

#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/tree.h"
#include "model/model_config.h"

namespace tessera::model {

// Reads the model_type of any family (model/family.h). A key that is absent has the default of
// transformers. The vocabulary is not padded (vocabulary_multiple = 1). Rotary settings are
// read from the keys of transformers 4, or from rope_parameters. hidden_act: gelu is erf; gelu_new,
// gelu_fast and gelu_pytorch_tanh are tanh. Throws Error with `source`, the key and a remedy
// if Tessera does not support the model (another family, attention biases, quantized weights, …).
ModelConfig model_from_hf_config(const Tree& config, const std::string& source);

// Corrects a model that was read from a config.json whose files have no head: in some families
// (ModelFamily::hf_ties_missing_head) it is then tied to the embedding and not scaled.
void tie_missing_head(ModelConfig& model);
// Returns the name of a tensor that files have if they have the first module of multi-token
// prediction; transformers does not write them.
std::string hf_mtp_tensor(const ModelConfig& model);

// The config.json that transformers 4 and 5 both read. `end_of_text`: the token that begins and
// ends texts, if the tokenizer has one; `dtype`: of the exported weights.
Tree hf_config_of_model(const ModelConfig& model, std::optional<int64_t> end_of_text, DType dtype);

// generation_config.json: the same tokens, and the decoder's start token of an encoder–decoder.
Tree hf_generation_config(const ModelConfig& model, std::optional<int64_t> end_of_text);

}  // namespace tessera::model
