// Checks token ids against a model's vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/indexed_dataset.h"
#include "data/instructions.h"
#include "data/tokenizer.h"

namespace tessera::data {

// All of these throw Error with the location of the first id outside [0, vocabulary). With
// vocabulary <= 0, any id is accepted.

// `ids` are tokens `start`, `start` + 1, … of the dataset.
void require_vocabulary(std::span<const int32_t> ids, int64_t vocabulary,
                        const IndexedDataset& data, int64_t start);
void require_vocabulary(const IndexedDataset& data, int64_t vocabulary);  // reads all of it
void require_vocabulary(const InstructionData& data, int64_t vocabulary);

// ---- Comparison of two tokenizers by the texts of their ids.

// Returns a hash of the texts that the ids [0, count) represent. If it is equal for two tokenizers,
// ids of one can be read with the other, whatever their rules for splitting text.
uint64_t hash_token_texts(const Tokenizer& tokenizer, int64_t count);

// Returns true if each id of `from` represents the same bytes in `to`, which may have further ids.
bool means_the_same(const Tokenizer& from, const Tokenizer& to);

// Throws Error that names the tokenizer by `name` if its id 0 is text: the attention of an encoder
// treats id 0 as padding.
void require_padding(const Tokenizer& tokenizer, const std::string& name);

// Returns true if the id is ordinary text, such as "!", and not a special token, an unused id, or
// the byte 0, which does not occur in text.
bool is_text(const Tokenizer& tokenizer, int32_t id);

}  // namespace tessera::data
