// Reads what a Hugging Face folder states about texts (which tokens end and begin them, its chat
// template, its defaults for generation) into a checkpoint's header, and writes it out again.
#pragma once

#include "base/file.h"
#include "base/tree.h"
#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

// Keys of a header's state: "stops" [ids], "begin" id, "end" id, each only where it is said.
// generation_config.json counts before config.json, as in transformers. `by_class`: of a decoder
// with a SentencePiece model, around whose texts transformers' class puts tokens. Such a text
// begins with bos_token_id where tokenizer_config.json says add_bos_token, or, where it does not, a
// tokenizer.json beside it has a template that begins with a token; likewise it ends with
// eos_token_id by add_eos_token or the template.
//
// Further keys: "chat_template", the text of chat_template.jinja; "chat_templates", an object of
// those in additional_chat_templates/ by name; "tokenizer_config" and "generation", objects of the
// keys of tokenizer_config.json (chat template, names of special tokens) and generation_config.json
// (sampling defaults) that an export repeats.
void read_text_rules(const Path& hf_folder, const Tree& config, bool by_class, Tree& state);

// Writes the chat template files that the header holds to an exported folder.
void write_chat_templates(const CheckpointHeader& header, const Path& hf_folder);

// Adds what the header holds of tokenizer_config.json to `config`. Without `names`, the names of
// special tokens in it stay as they are.
void complete_tokenizer_config(const CheckpointHeader& header, bool names, Tree& config);

// Adds the keys of generation_config.json that the header holds.
void complete_generation_config(const CheckpointHeader& header, Tree& config);

}  // namespace tessera::checkpoint
