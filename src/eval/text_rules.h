// Special tokens around the texts that a model reads and generates: from the template of its
// tokenizer, and from the Hugging Face folder that it was imported from.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"

namespace tessera::eval {

struct SpecialTokenRules {
  bool has_encoder = false;           // an encoder reads the texts; the decoder begins with id 0
  std::optional<int32_t> begin, end;  // tokens before and after a text that is read
  std::optional<int32_t> alone;       // token that is read in place of an empty text
  std::vector<int32_t> stops;         // any of these tokens ends a generated text
  int64_t vocabulary = 0;             // ids below it may be generated; the others are padding
};

// Returns the rules of a checkpoint's model with this tokenizer.
SpecialTokenRules text_rules(const checkpoint::CheckpointReader& checkpoint,
                             const data::Tokenizer& tokenizer);

// Returns the ids of a text that is read, with the tokens that the rules put around it.
std::vector<int32_t> encode_text(const SpecialTokenRules& rules, const data::Tokenizer& tokenizer,
                                 std::string_view text);

// Adds the tokens that the rules put around a text, as far as its ids do not begin with them.
void add_special_tokens(const SpecialTokenRules& rules, std::vector<int32_t>& ids);

// Returns the text of generated ids. A model may have more ids than its tokenizer; those have no
// text.
std::string written_text(const data::Tokenizer& tokenizer, std::span<const int32_t> ids);

}  // namespace tessera::eval
