// Splits a text into words before BPE merges, without a regex engine. A byte that is not UTF-8
// counts as [^\s\p{L}\p{N}]. Every byte of the text is in exactly one word.
//   gpt2     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//            (Radford et al. 2019)
//   qwen2    (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*
//            |\s*[\r\n]+|\s+(?!\S)|\s+
//   llama3   the same with \p{N}{1,3}
//   none     the whole text is one word
#pragma once

#include <array>
#include <string_view>

#include "data/unicode.h"

namespace tessera::data {

enum class PretokenizerKind : uint8_t { kOff, kGpt2, kQwen2, kLlama3 };
constexpr const char* enum_names(PretokenizerKind) { return "none|gpt2|qwen2|llama3"; }

class Pretokenizer {
 public:
  explicit Pretokenizer(const UnicodeTable& table,
                        PretokenizerKind split = PretokenizerKind::kGpt2);

  // Returns the end of the word that begins at `from` < text.size(). `from` is 0 or the end of the
  // previous word.
  size_t word_end(std::string_view text, size_t from) const;

 private:
  size_t gpt2_end(std::string_view text, size_t from) const;
  size_t later_end(std::string_view text, size_t from) const;  // qwen2 and llama3
  uint8_t kind_at(std::string_view text, size_t i) const;
  size_t run_end(std::string_view text, size_t from, uint8_t kind) const;
  size_t digits_end(std::string_view text, size_t from, int most) const;
  size_t space_end(std::string_view text, size_t from) const;

  static constexpr uint8_t kLead = 4;  // not ASCII: decode the character and look its class up
  const UnicodeTable& table_;
  PretokenizerKind split_;
  std::array<uint8_t, 256> byte_class_{};
};

}  // namespace tessera::data
