// The rules of a SentencePiece normalizer in a model file, which map strings of characters to their
// replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

// Format: u32 size of the trie in bytes, the trie as a double array (darts-clone: u32 units), then
// the results, each terminated by a zero byte. Numbers are little endian. From unit i, byte c leads
// to unit i ^ offset(i) ^ c, which must have the label c. The value of a unit with a leaf, which is
// the offset of its result, is in unit i ^ offset(i).
class CharacterMap {
 public:
  // Throws Error that names `source` if any path leaves the trie or is longer than 64 bytes, or if
  // any result is out of range or longer than 256 bytes. This is checked because the library uses
  // these numbers unchecked. Without bytes there are no rules.
  CharacterMap(std::string_view bytes, const std::string& source);

  bool empty() const { return units_.empty(); }

  // Returns true if a space between two visible ASCII characters always remains a separate space:
  // no rule matches across it, and none replaces a character next to it by a space or by nothing.
  bool keeps_word_gaps() const;

 private:
  bool has_leaf(uint32_t unit) const { return (units_[unit] >> 8 & 1) != 0; }
  uint32_t below(uint32_t unit) const;  // i ^ offset(i)
  // Returns the unit to which `byte` leads, if there is one.
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
