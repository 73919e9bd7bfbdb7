// Reads what a Hugging Face folder says of texts: which tokens end them, and what begins them.
#pragma once

#include "base/file.h"
#include "base/tree.h"

namespace tessera {

// Keys of a header's state: "stops" [ids], "begin" id, "end" id, each only where it is said.
// generation_config.json counts before config.json, as in transformers. `by_class`: of a decoder
// with a SentencePiece model, around whose texts transformers' class puts tokens. Such a text
// begins with bos_token_id where tokenizer_config.json says add_bos_token, or, where it does not, a
// tokenizer.json beside it has a template that begins with a token; likewise it ends with
// eos_token_id by add_eos_token or the template.
void read_text_rules(const Path& hf_folder, const Tree& config, bool by_class, Tree& state);

}  // namespace tessera
