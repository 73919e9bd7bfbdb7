// Whether the ids of one tokenizer mean the same text in another.
#pragma once

#include <cstdint>
#include <string>

#include "data/tokenizer.h"

namespace tessera {

// A hash of what the ids [0, count) stand for. Where it is equal for two tokenizers, tokens of the
// one are read rightly with the other, however they cut text.
uint64_t hash_token_texts(const Tokenizer& tokenizer, int64_t count);

// Whether each id of `from` stands for the same bytes in `to`, which may have further ones.
bool means_the_same(const Tokenizer& from, const Tokenizer& to);

// Throws Error, which calls the tokenizer `name`, if an encoder cannot read its tokens: attention
// takes the id 0 for padding, so it may not be a piece of text.
void require_padding(const Tokenizer& tokenizer, const std::string& name);

// Whether the id is an ordinary piece of text, such as "!": not a special token, a hole, or the
// byte 0, which no text has.
bool is_text(const Tokenizer& tokenizer, int32_t id);

}  // namespace tessera
