// A bounded hash table from words to their ids, with open addressing over one arena. The arena
// stores the ids of a word and then its bytes, in units of 4 bytes. When it is full, it is cleared:
// frequent words return within a few lines of text, so an eviction order would cost more than it
// saves.
#include "data/encode_cache.h"

#include <algorithm>
#include <bit>

namespace tessera::data {
namespace {

constexpr size_t kFirstSlots = size_t{1} << 10;

size_t words_for(size_t bytes) { return (bytes + 3) / 4; }

}  // namespace

// Half of the limit is for slots. While they grow, the old and the new table exist together, which
// needs one and a half times the size of the new one. A usual word needs 16 bytes of the arena and
// two slots. The arena gets the rest and is not initialized, so the system provides its pages when
// they are first written.
EncodeCache::EncodeCache(int64_t limit_bytes) : slots_(kFirstSlots) {
  const size_t limit = std::max(limit_bytes, int64_t{1} << 16);
  most_slots_ = std::max(kFirstSlots, std::bit_floor(limit / 2 / sizeof(Slot)));
  arena_size_ = (limit - most_slots_ * sizeof(Slot) * 3 / 2) / sizeof(int32_t);
  arena_ = std::make_unique_for_overwrite<int32_t[]>(arena_size_);
}

int64_t EncodeCache::bytes() const {
  return slots_.size() * sizeof(Slot) + arena_used_ * sizeof(int32_t);
}

void EncodeCache::begin(uint64_t fingerprint) {
  if (fingerprint == fingerprint_) return;
  fingerprint_ = fingerprint;
  clear();
}

void EncodeCache::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  arena_used_ = used_ = 0;
}

void EncodeCache::place(const Slot& slot, uint64_t hash) {
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].tag != 0) i = (i + 1) & mask;
  slots_[i] = slot;
}

void EncodeCache::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.tag == 0) continue;
    const int32_t* ids = arena_.get() + slot.offset;
    // A slot stores only part of the hash, so the hash is recomputed from the word.
    place(slot, hash_bytes({reinterpret_cast<const char*>(ids + slot.ids), slot.length}));
  }
}

void EncodeCache::insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
  if (word.size() > kLongestWord || ids.empty() || ids.size() > kLongestWord) return;
  const size_t wanted = ids.size() + words_for(word.size());
  if (arena_used_ + wanted > arena_size_) clear();
  if ((used_ + 1) * 2 > slots_.size()) {
    if (slots_.size() < most_slots_) {
      grow();
    } else {
      clear();
    }
  }
  int32_t* at = arena_.get() + arena_used_;
  std::copy(ids.begin(), ids.end(), at);
  std::memcpy(at + ids.size(), word.data(), word.size());
  place({tag_of(hash), static_cast<uint32_t>(arena_used_), static_cast<uint16_t>(ids.size()),
         static_cast<uint16_t>(word.size())},
        hash);
  arena_used_ += wanted;
  ++used_;
}

}  // namespace tessera::data
