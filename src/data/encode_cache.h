// What one thread remembers of the words it has encoded: bytes -> ids, bounded in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

// Open addressing over one arena. When the arena is full the cache starts again from nothing:
// text repeats its frequent words soon enough that nothing cleverer pays.
// A cache serves one tokenizer at a time and forgets all when another one's fingerprint comes.
class EncodeCache {
 public:
  static constexpr int64_t kDefaultBytes = int64_t{64} << 20;
  // Longer words are rare and would only push out the others.
  static constexpr size_t kLongestWord = 64;

  explicit EncodeCache(int64_t limit_bytes = kDefaultBytes);

  void begin(uint64_t fingerprint);  // of the tokenizer that encodes now

  // The ids of `word`, or an empty span where it is not known. Valid until the next insert.
  std::span<const int32_t> find(std::string_view word, uint64_t hash) const;
  void insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids);

  static uint64_t hash(std::string_view word);
  int64_t bytes() const;  // held now, at most the limit

 private:
  struct Slot {
    uint32_t tag = 0;     // upper half of the hash, 0: empty
    uint32_t offset = 0;  // into arena_: ids, then the word's bytes
    uint16_t ids = 0;
    uint16_t length = 0;
  };
  void clear();
  void grow();

  std::vector<Slot> slots_;
  std::vector<int32_t> arena_;
  size_t used_ = 0;
  int64_t limit_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace tessera
