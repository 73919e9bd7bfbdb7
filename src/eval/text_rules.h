// What a model reads and writes beside the tokens of a text: by its tokenizer's template, and by
// what the Hugging Face folder said that it was imported from.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"

namespace tessera::eval {

struct TextRules {
  bool encodes = false;               // texts go to an encoder, whose decoder begins with id 0
  std::optional<int32_t> begin, end;  // around a text that is read
  std::optional<int32_t> alone;       // what is read where there is no text
  std::vector<int32_t> stops;         // any of them ends what is written
  int64_t vocabulary = 0;             // ids below it may be written: those behind pad the table
};

TextRules text_rules(const checkpoint::CheckpointReader& checkpoint,
                     const data::Tokenizer& tokenizer);

// The ids of a text that is read, with what stands around it.
std::vector<int32_t> encode_text(const TextRules& rules, const data::Tokenizer& tokenizer,
                                 std::string_view text);

// The text of ids that the model wrote. Models may have more of them than their tokenizer: of such
// an id it is nothing.
std::string written_text(const data::Tokenizer& tokenizer, std::span<const int32_t> ids);

}  // namespace tessera::eval
