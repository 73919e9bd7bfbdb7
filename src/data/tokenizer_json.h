// Reads and writes tokenizer.json files with byte-level BPE, in the format of Hugging Face's
// `tokenizers`.
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

// The content of a file.
struct BpeDescription {
  // (text, id) in the order of the file. Texts are in the byte alphabet (see below); ids are
  // unique.
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  // (left, right, merged) as ids, in the order of ranks.
  std::vector<std::array<int32_t, 3>> merges;
  std::vector<AddedToken> added_tokens;
  bool nfc = false;               // normalize to NFC
  bool add_prefix_space = false;  // add a space before each piece of text that has none
  WordSplit words = WordSplit::kGpt2;
  bool ignore_merges = false;  // a word that is in the vocabulary is always one token
  TextTemplate around;         // names of the added tokens before and after a text
};

// A limit above that of any model.
constexpr int32_t kLargestTokenId = (1 << 22) - 1;

// Parses a tokenizer.json. Throws Error with file, line and column if something is missing or
// invalid, or if a component would encode differently (another model, normalizer or split), because
// an approximation would give wrong ids. Ignores truncation and padding, and the post-processor
// except for the tokens that it puts around a text.
BpeDescription read_tokenizer_json(std::string_view text, const std::string& source);

std::string write_tokenizer_json(const BpeDescription& bpe);

// Convert bytes to the printable characters of GPT-2's alphabet: printable characters of Latin-1
// represent themselves, and the other 68 bytes are U+0100 and up, in order (a space is 'Ġ').
char32_t byte_to_character(uint8_t byte);
std::string bytes_to_characters(std::string_view bytes);
// Returns the bytes that such a text represents, or the text itself if it has other characters.
std::string characters_to_bytes(std::string_view text);

}  // namespace tessera::data
