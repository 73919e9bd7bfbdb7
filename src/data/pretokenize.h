// The split of GPT-2 (Radford et al. 2019), before byte-pair merges, without a regex engine:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// A byte that is no UTF-8 counts as [^\s\p{L}\p{N}]. Every byte of the text is in one word.
#pragma once

#include <array>
#include <string_view>

#include "data/unicode.h"

namespace tessera {

class Pretokenizer {
 public:
  explicit Pretokenizer(const UnicodeTable& table);

  // The end of the word that begins at `from` < text.size(), where a word began or ended.
  size_t word_end(std::string_view text, size_t from) const;

 private:
  size_t run_end(std::string_view text, size_t from, uint8_t kind) const;
  size_t space_end(std::string_view text, size_t from) const;

  static constexpr uint8_t kLead = 4;  // of more than one byte: look it up
  const UnicodeTable& table_;
  std::array<uint8_t, 256> byte_class_{};
};

}  // namespace tessera
