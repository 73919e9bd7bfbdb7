// Assigns arena offsets to buffers. Buffers with overlapping lifetimes share no bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::compile {

// The lifetime of a buffer: a closed interval of schedule positions, and its arena offset.
struct Lifetime {
  int64_t birth = 0, death = 0, bytes = 0;
  int64_t offset = 0;
};

// Occupied bytes: used[c] bytes from `offset` on are in use at position c.
struct Region {
  int64_t offset = 0;
  std::vector<int64_t> used;
};

// Returns the number of bytes alive at each of the first `positions` positions. No packing needs
// fewer bytes than their maximum. All lifetimes must end before `positions`.
std::vector<int64_t> bytes_alive(const std::vector<Lifetime>& lives, size_t positions);

// Gives every lifetime an offset, a multiple of `alignment`, outside the regions and the lifetimes
// that overlap it; returns the end of the last one. The buffer placed first has the most free
// space, so several orders are tried. Then, as long as the result exceeds the lower bound, the best
// order is tried again with the lifetimes that end at the top moved to the front. All regions have
// an entry per position. Runs in O(n log n) for n lifetimes if each overlaps with few others.
int64_t pack(std::vector<Lifetime>& lives, const std::vector<Region>& regions, int64_t alignment);

}  // namespace tessera::compile
