// What one thread remembers of the words it has encoded: bytes -> ids, bounded in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::data {

// Multiply and fold, 16 bytes a turn (after Wang Yi's wyhash). Not against adversaries.
inline uint64_t hash_bytes(std::string_view s) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15u, kB = 0xD6E8FEB86659FD93u;
  const auto fold = [](uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const auto word = [](const char* p, size_t bytes) {
    uint64_t w = 0;
    std::memcpy(&w, p, bytes);
    return w;
  };
  const char* p = s.data();
  size_t left = s.size();
  uint64_t h = left * kA;
  for (; left > 16; p += 16, left -= 16) h = fold(h ^ word(p, 8) ^ kA, word(p + 8, 8) ^ kB);
  const uint64_t first = left >= 8 ? word(p, 8) : word(p, left);
  const uint64_t second = left > 8 ? word(p + left - 8, 8) : 0;
  return fold(h ^ first ^ kB, second ^ kA);
}

// Open addressing over one arena. A full cache starts again from nothing: text repeats its frequent
// words soon enough that nothing cleverer pays. A cache serves one tokenizer at a time and forgets
// all when another one's fingerprint comes.
class EncodeCache {
 public:
  static constexpr int64_t kDefaultBytes = int64_t{64} << 20;
  // Longer words are rare and would only push out the others.
  static constexpr size_t kLongestWord = 64;

  // Never holds more than `limit_bytes` (at least 64 KiB), and touches only what it uses.
  explicit EncodeCache(int64_t limit_bytes = kDefaultBytes);

  void begin(uint64_t fingerprint);  // of the tokenizer that encodes now

  // The ids of `word`, or an empty span where it is not known. Valid until the next insert.
  std::span<const int32_t> find(std::string_view word, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    const uint32_t tag = tag_of(hash);
    for (size_t i = hash & mask; slots_[i].tag != 0; i = (i + 1) & mask) {
      const Slot& slot = slots_[i];
      if (slot.tag != tag || slot.length != word.size()) continue;
      const int32_t* ids = arena_.get() + slot.offset;
      if (std::memcmp(ids + slot.ids, word.data(), word.size()) == 0) return {ids, slot.ids};
    }
    return {};
  }
  // `word` must not be known yet; hash = hash_bytes(word).
  void insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids);

  int64_t bytes() const;  // in use now

 private:
  struct Slot {
    uint32_t tag = 0;     // from the upper half of the hash; 0: empty
    uint32_t offset = 0;  // into arena_: the ids, then the word's bytes
    uint16_t ids = 0;
    uint16_t length = 0;
  };
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1u; }
  void clear();
  void grow();
  void place(const Slot& slot, uint64_t hash);

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t most_slots_ = 0;
  std::unique_ptr<int32_t[]> arena_;
  size_t arena_used_ = 0, arena_size_ = 0;
  size_t used_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace tessera::data
