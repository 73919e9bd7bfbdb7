// Checks token ids against a model's vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/indexed_dataset.h"
#include "data/instructions.h"
#include "data/tokenizer.h"

namespace tessera::data {

// All throw an Error that names the place of the first id outside [0, vocabulary); with vocabulary
// <= 0 any id is accepted.

// `ids` are tokens `start`, `start` + 1, … of the data set.
void require_vocabulary(std::span<const int32_t> ids, int64_t vocabulary,
                        const IndexedDataset& data, int64_t start);
void require_vocabulary(const IndexedDataset& data, int64_t vocabulary);  // reads all of it
void require_vocabulary(const InstructionData& data, int64_t vocabulary);

// ---- Whether the ids of one tokenizer mean the same text in another.

// Returns a hash of the texts that the ids [0, count) stand for. If it is equal for two tokenizers,
// ids of one can be read with the other, however they split text.
uint64_t hash_token_texts(const Tokenizer& tokenizer, int64_t count);

// Returns true if each id of `from` stands for the same bytes in `to`, which may have further ids.
bool means_the_same(const Tokenizer& from, const Tokenizer& to);

// Throws Error, with `name` for the tokenizer, if an encoder cannot read its tokens: attention
// treats id 0 as padding, so it must not be text.
void require_padding(const Tokenizer& tokenizer, const std::string& name);

// Whether the id is an ordinary piece of text, such as "!": not a special token, a hole, or the
// byte 0, which no text has.
bool is_text(const Tokenizer& tokenizer, int32_t id);

}  // namespace tessera::data
