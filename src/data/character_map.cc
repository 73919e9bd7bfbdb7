// Checks a SentencePiece normalizer's rules before the library uses them. The trie of a model file
// is a double array (Aoe 1989) in the format of darts-clone: from unit i, byte c leads to unit i ^
// offset(i) ^ c, which carries the label c. The library follows the offsets without bounds checks,
// so a damaged or hostile file could make it read anywhere; this check follows every reachable path
// once.
#include "data/character_map.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/unicode.h"

namespace tessera::data {
namespace {

constexpr uint32_t kValue = uint32_t{1} << 31;  // marks a unit that contains a value
constexpr int kLongestRule = 64;                // bytes; Unicode's own are shorter than 40
constexpr size_t kLongestResult = 256;          // bytes; Unicode's own are at most 33

uint32_t number_at(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{byte_at(bytes, at + i)} << (8 * i);
  }
  return value;
}

bool visible(uint32_t c) { return c > ' ' && c <= '~'; }

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& source) {
  if (bytes.empty()) return;
  constexpr size_t kUnit = 4, kBlock = 256 * kUnit;
  const size_t trie = bytes.size() < kUnit ? 0 : number_at(bytes, 0);
  if (trie == 0 || trie % kBlock != 0 || trie >= bytes.size() - kUnit) {
    throw Error(
        "{}: the normalizer's rules have {} bytes, but the size of their trie is given as {}. The "
        "file is damaged; download it again",
        source, bytes.size(), trie);
  }
  units_.resize(trie / kUnit);
  for (size_t i = 0; i < units_.size(); ++i) units_[i] = number_at(bytes, kUnit + i * kUnit);
  results_ = bytes.substr(kUnit + trie);
  check(source);
}

// Returns unit ^ offset(unit). Bits 10 to 30 of a unit are the offset, shifted left by 8 if bit 9
// is set (for offsets above 2^21). Bit 8: the unit has a leaf; bits 0 to 7: its label. Bit 31 marks
// a unit that contains a value.
uint32_t CharacterMap::below(uint32_t unit) const {
  const uint32_t u = units_[unit];
  return unit ^ (u >> 10 << ((u & 512) >> 6));
}

void CharacterMap::check(const std::string& source) const {
  const auto damaged = [&](uint32_t unit, const char* what) {
    throw Error(
        "{}: unit {} of the normalizer's rules points {}. The file is damaged; download it again",
        source, unit, what);
  };
  if (results_.back() != '\0') {
    throw Error(
        "{}: the results of the normalizer's rules do not end in a zero byte. The file is damaged; "
        "download it again",
        source);
  }
  for (uint32_t i = 0; i < units_.size(); ++i) {
    if ((units_[i] & kValue) != 0) {
      if (i == 0) damaged(i, "nowhere");
      continue;
    }
    // The 256 possible children differ in the low 8 bits only, and the array is a multiple of 256
    // units long, so all of them are inside or all are outside.
    if (below(i) >= units_.size()) damaged(i, "beyond the trie");
    if (!has_leaf(i)) continue;
    const size_t result = units_[below(i)] & ~kValue;
    if (result >= results_.size()) damaged(i, "beyond the results");
    const size_t most = std::min(results_.size() - result, kLongestResult + 1);
    if (std::memchr(results_.data() + result, 0, most) == nullptr)
      damaged(i, fmt::format("to a result of more than {} bytes", kLongestResult).c_str());
  }
  std::vector<int> heights(units_.size());
  check_depth(0, 0, heights, source);
}

// Throws Error if a path through the trie is longer than kLongestRule or is a cycle, which the
// library would follow at every position of a text. Returns the length of the longest path from
// `unit`. `heights` memoizes these lengths, so shared units are visited once; -1 marks a unit on
// the current path.
int CharacterMap::check_depth(uint32_t unit, int depth, std::vector<int>& heights,
                              const std::string& source) const {
  if (heights[unit] > 0 && depth + heights[unit] <= kLongestRule) return heights[unit];
  if (heights[unit] != 0 || depth > kLongestRule)
    throw Error(
        "{}: a rule of the normalizer is longer than {} bytes. The file is damaged; download it "
        "again",
        source, kLongestRule);
  heights[unit] = -1;
  int height = 0;
  for (uint32_t byte = 1; byte < 256; ++byte) {
    if (const auto next = child(unit, byte))
      height = std::max(height, check_depth(*next, depth + 1, heights, source));
  }
  return heights[unit] = height + 1;
}

std::optional<uint32_t> CharacterMap::child(uint32_t unit, uint32_t byte) const {
  const uint32_t next = below(unit) ^ byte;
  if ((units_[next] & (kValue | 255)) != byte) return std::nullopt;
  return next;
}

// Returns true if the result of this rule, for a visible character next to the gap, is empty or
// begins or ends with a space.
bool CharacterMap::leaf_moves_gap(uint32_t unit) const {
  const std::string_view result = results_.c_str() + (units_[below(unit)] & ~kValue);
  return result.empty() || result.front() == ' ' || result.back() == ' ';
}

// Returns true if leaf_moves_gap() is true for any rule below `unit`. A trie has one path to each
// unit. If a file has more, which no builder produces, `budget` bounds the search, and the result
// is true, which is safe.
bool CharacterMap::way_moves_gap(uint32_t unit, int depth, int64_t& budget) const {
  if (--budget < 0 || depth == kLongestRule) return true;
  if (has_leaf(unit) && leaf_moves_gap(unit)) return true;
  for (uint32_t byte = 1; byte < 256; ++byte) {
    const auto next = child(unit, byte);
    if (next && way_moves_gap(*next, depth + 1, budget)) return true;
  }
  return false;
}

bool CharacterMap::keeps_word_gaps() const {
  if (empty()) return true;
  // Rules that contain a space could match across the gap.
  for (uint32_t i = 0; i < units_.size(); ++i) {
    if ((units_[i] & kValue) != 0) continue;
    if (i != 0 && child(i, ' ')) return false;
    if (i != 0 && visible(units_[i] & 255) && has_leaf(i) && leaf_moves_gap(i)) return false;
  }
  if (child(0, ' ')) return false;
  auto budget = std::ssize(units_);
  for (uint32_t c = '!'; c <= '~'; ++c) {
    const auto first = child(0, c);
    if (first && way_moves_gap(*first, 1, budget)) return false;
  }
  return true;
}

}  // namespace tessera::data
