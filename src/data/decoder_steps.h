// The decoders of a tokenizer.json: they turn tokens into text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_pattern.h"

namespace tessera::data {

struct DecoderStep {
  enum class Kind : uint8_t { kByteFallback, kFuse, kStrip, kReplace, kMetaspace };
  Kind kind = Kind::kFuse;
  PatternText pattern;         // kReplace; kMetaspace: its character
  std::string content;         // kReplace: the new text; kStrip: the character
  size_t start = 0, stop = 0;  // kStrip: how many are removed at most at the beginning and the end
  bool drops_first = true;     // kMetaspace: its characters in the first token are not spaces
  bool operator==(const DecoderStep&) const = default;
};
constexpr const char* enum_names(DecoderStep::Kind) {
  return "ByteFallback|Fuse|Strip|Replace|Metaspace";
}

class Decoder {
 public:
  // Throws Error if a pattern is not supported.
  explicit Decoder(const std::vector<DecoderStep>& steps);

  // Returns the text of a sequence of tokens. Bytes of <0x…> stay bytes, where Hugging Face writes
  // U+FFFD for those that are not UTF-8.
  std::string decode(std::vector<std::string> tokens) const;

  // Returns the text of one token in the middle of a sequence.
  std::string decode_inner(const std::string& token) const;

 private:
  struct Step {
    DecoderStep step;
    std::optional<TextPattern> pattern;
  };
  void apply(const Step& step, std::vector<std::string>& tokens) const;
  std::vector<Step> steps_;
};

// Returns the byte of a token <0xE4>; nothing for another token.
std::optional<uint8_t> byte_of_token(std::string_view token);

}  // namespace tessera::data
