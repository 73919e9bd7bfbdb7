// Reads the text settings of a Hugging Face folder (begin and end tokens, chat templates, defaults
// for generation) into a checkpoint's header, and writes them to exported folders.
#pragma once

#include "base/file.h"
#include "base/tree.h"
#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

// Sets these keys of a header's state, each only if the folder has the setting:
//   stops             ids that end generation: eos_token_id of generation_config.json, which has
//                     precedence over config.json, as in transformers
//   begin, end        ids before and after a text
//   chat_template     text of chat_template.jinja
//   chat_templates    object of the templates in additional_chat_templates/, by name
//   tokenizer_config  object of the keys of tokenizer_config.json that an export repeats (chat
//                     template, names of special tokens)
//   generation        object of the keys of generation_config.json that an export repeats (sampling
//                     defaults)
//
// `by_class`: the model is a decoder with a SentencePiece model, so the class in transformers adds
// tokens around each text, which set `begin` and `end`. A text begins with bos_token_id if
// tokenizer_config.json has add_bos_token = true. If that key is absent, it does if the template
// of a tokenizer.json in the same folder begins with a token. Likewise it ends with eos_token_id by
// add_eos_token or the template.
void read_text_rules(const Path& hf_folder, const Tree& config, bool by_class, Tree& state);

// Writes the chat templates in the header to files of an exported folder.
void write_chat_templates(const CheckpointHeader& header, const Path& hf_folder);

// Adds the keys of tokenizer_config.json in the header to `config`. Without `names`, the names of
// special tokens in `config` are not changed.
void complete_tokenizer_config(const CheckpointHeader& header, bool names, Tree& config);

// Returns the names of special tokens in the header, which transformers passes to chat templates:
// an object of bos_token, eos_token and others.
Tree special_token_names(const CheckpointHeader& header);

// Adds the keys of generation_config.json in the header to `config`.
void complete_generation_config(const CheckpointHeader& header, Tree& config);

}  // namespace tessera::checkpoint
