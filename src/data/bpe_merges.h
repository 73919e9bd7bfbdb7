// Byte-pair encoding of one word (Sennrich et al. 2016): while any two neighboring tokens have a
// merge, the pair with the lowest rank is merged, leftmost first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::data {

struct Merge {
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  uint32_t rank = kNone;  // lower ranks are merged first
  int32_t id = -1;        // id of the merged token
};

// Maps pairs of token ids to their merges, by open addressing.
class MergeTable {
 public:
  explicit MergeTable(size_t merges);

  // If a pair is added twice, the last merge is used.
  void add(int32_t left, int32_t right, Merge merge);

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = start(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }

  // Merges `ids` in place and returns the number of remaining ids, which are at the front. The time
  // is O(n²) for short words and O(n log n) for long ones.
  size_t apply(std::span<int32_t> ids) const;

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t start(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }
  size_t apply_short(std::span<int32_t> ids) const;
  size_t apply_long(std::span<int32_t> ids) const;

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace tessera::data
