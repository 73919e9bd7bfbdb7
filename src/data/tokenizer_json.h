// Reads tokenizer.json files with BPE, and writes those of byte-level BPE, in the format of Hugging
// Face's `tokenizers`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_template.h"
#include "data/added_tokens.h"
#include "data/decoder_steps.h"
#include "data/normalizer_steps.h"
#include "data/pretokenize.h"
#include "data/split_steps.h"

namespace tessera::data {

// The content of a file.
struct BpeDescription {
  // (text, id) in the order of the file; ids are unique. If byte_level, texts are in the byte
  // alphabet (see below).
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  // (left, right, merged) as ids, in the order of ranks.
  std::vector<std::array<int32_t, 3>> merges;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStep> splits;  // run before `words`
  // Merges join bytes; otherwise they join characters, and `words` is kOff.
  bool byte_level = true;
  bool add_prefix_space = false;  // add a space before each piece of text that has none
  PretokenizerKind words = PretokenizerKind::kGpt2;
  bool ignore_merges = false;  // a word that is in the vocabulary is always one token

  // ---- Used only if byte_level is false.
  bool byte_fallback = false;  // a character without a token becomes its bytes, <0xE4> and so on
  std::string unknown;         // otherwise this token; empty: it is omitted
  bool fuse_unknown = false;   // neighboring unknown characters are one token
  std::string inner_prefix;    // written before each character but the first of a pre-token
  std::string end_suffix;      // written after the last character of a pre-token
  std::vector<DecoderStep> decoder;

  TextTemplate around;  // names of the added tokens before and after a text
};

// A limit above that of any model.
constexpr int32_t kLargestTokenId = (1 << 22) - 1;

// Parses a tokenizer.json. Throws Error with file, line and column if something is missing or
// invalid, or if a component would encode differently (another model, normalizer or split), because
// an approximation would give wrong ids. Ignores truncation and padding, and the post-processor
// except for the tokens that it puts around a text.
BpeDescription read_tokenizer_json(std::string_view text, const std::string& source);

// Writes a byte-level tokenizer without splits and with no normalizer but NFC, as `tokenizer train`
// makes them.
std::string write_tokenizer_json(const BpeDescription& bpe);

// Convert bytes to the printable characters of GPT-2's alphabet: printable characters of Latin-1
// represent themselves, and the other 68 bytes are U+0100 and up, in order (a space is 'Ġ').
char32_t byte_to_character(uint8_t byte);
std::string bytes_to_characters(std::string_view bytes);
// Returns the bytes that such a text represents, or the text itself if it has other characters.
std::string characters_to_bytes(std::string_view text);

}  // namespace tessera::data
