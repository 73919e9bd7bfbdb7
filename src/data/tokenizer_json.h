// tokenizer.json of the byte-level BPE kind, as Hugging Face's `tokenizers` writes it: what a file
// says, and nothing derived from it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_template.h"
#include "data/added_tokens.h"
#include "data/pretokenize.h"

namespace tessera::data {

struct BpeDescription {
  // (text, id) in the order of the file. Texts are in the byte alphabet (see below); ids differ.
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  // (left, right, what they become), as ids, the first rank first.
  std::vector<std::array<int32_t, 3>> merges;
  std::vector<AddedToken> added_tokens;
  bool nfc = false;               // normaliser
  bool add_prefix_space = false;  // a space before each piece of text that has none
  WordSplit words = WordSplit::kGpt2;
  bool ignore_merges = false;  // a word of the vocabulary is never taken apart
  TextTemplate around;         // names of added tokens
};

// More than any model has.
constexpr int32_t kLargestTokenId = (1 << 22) - 1;

// Throws Error with file, line and column where something is missing, wrong, or of a kind that
// encodes differently (another model, normaliser or split): never a tokenizer that is almost right.
// Truncation, padding and the post-processor, but for what it puts around a text, are left to
// whoever uses the ids.
BpeDescription read_tokenizer_json(std::string_view text, const std::string& source);

std::string write_tokenizer_json(const BpeDescription& bpe);

// GPT-2 writes bytes as characters that can be seen: those of Latin-1 that can be stand for
// themselves, the other 68 bytes are U+0100 and up in turn (a space is 'Ġ').
char32_t byte_to_character(uint8_t byte);
std::string bytes_to_characters(std::string_view bytes);
// The bytes that such a text stands for; where it has another character, the text itself.
std::string characters_to_bytes(std::string_view text);

}  // namespace tessera::data
