// A bounded per-thread cache that maps words to their ids.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::data {

// Returns a hash by multiplying and folding 16 bytes at a time (after Wang Yi's wyhash). It does
// not resist adversarial input.
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

// A hash table with open addressing over one arena. A full cache is cleared: frequent words return
// so soon that an eviction order would not pay off. A cache serves one tokenizer at a time and is
// cleared when begin() receives another fingerprint.
class EncodeCache {
 public:
  static constexpr int64_t kDefaultBytes = int64_t{64} << 20;
  // Longer words are rare and would only displace others.
  static constexpr size_t kLongestWord = 64;

  // Uses at most `limit_bytes` (at least 64 KiB); memory that is not used is never touched.
  explicit EncodeCache(int64_t limit_bytes = kDefaultBytes);

  // Selects the tokenizer with this fingerprint. Clears the cache if it was another one before.
  void begin(uint64_t fingerprint);

  // Returns the ids of `word`, or an empty span if it is not cached. Valid until the next insert().
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
  // Adds a word, which must not be cached yet; hash = hash_bytes(word).
  void insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids);

  int64_t bytes() const;  // memory in use

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
