// The rules of a SentencePiece normaliser as its model file holds them: which strings of characters
// become which others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// Bytes: u32 size of the trie, the trie as a double array (darts-clone: u32 units), then the
// results, each ended by a zero byte. Numbers are little endian. From unit i on the byte c the way
// goes to i ^ offset(i) ^ c, which must carry the label c; a unit with a leaf has its value, the
// place of the result, at i ^ offset(i).
class CharacterMap {
 public:
  // Throws Error, naming `source`, if any path through the trie leaves it or is longer than 64
  // bytes, or if any result is outside the bytes or longer than 256 bytes: the library follows
  // these numbers unchecked. No bytes: no rules.
  CharacterMap(std::string_view bytes, const std::string& source);

  bool empty() const { return units_.empty(); }

  // Whether a space between two visible ASCII characters always stays a space of its own: no rule
  // reaches over it, and none turns what stands beside it into a space or nothing.
  bool keeps_word_gaps() const;

 private:
  bool has_leaf(uint32_t unit) const { return (units_[unit] >> 8 & 1) != 0; }
  uint32_t below(uint32_t unit) const;  // i ^ offset(i)
  // The unit that `byte` leads to, if there is one.
  std::optional<uint32_t> child(uint32_t unit, uint32_t byte) const;
  bool leaf_moves_gap(uint32_t unit) const;
  bool way_moves_gap(uint32_t unit, int depth, int64_t& budget) const;
  void check(const std::string& source) const;
  int check_depth(uint32_t unit, int depth, std::vector<int>& heights,
                  const std::string& source) const;

  std::vector<uint32_t> units_;
  std::string results_;
};

}  // namespace tessera::data
