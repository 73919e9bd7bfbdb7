// The first symbols of a word in BPE over characters (not bytes): the tokens of its characters.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer_json.h"

namespace tessera::data {

class BpeCharacters {
 public:
  explicit BpeCharacters(const BpeDescription& bpe);

  // Appends the ids of the characters of `word`, which is not empty. A byte that is not UTF-8
  // becomes its byte token; without one it is treated as U+FFFD. Returns the number of such
  // replaced bytes.
  int64_t append(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  int32_t find(std::string_view word, size_t at, size_t bytes) const;
  bool append_bytes(std::string_view text, std::vector<int32_t>& ids) const;

  std::unordered_map<char32_t, int32_t> characters_;     // tokens of one character
  std::unordered_map<std::string, int32_t> vocabulary_;  // only with a prefix or suffix
  std::array<int32_t, 256> byte_id_{};                   // tokens <0x00> … <0xFF>; -1: none
  std::string inner_prefix_, end_suffix_;
  int32_t unknown_ = -1;
  bool byte_fallback_, fuse_unknown_;
};

}  // namespace tessera::data
