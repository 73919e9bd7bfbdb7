// Packs what lives for a time into bytes: lives that meet share none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::compile {

// The lifetime of a buffer: a closed interval of schedule positions, and its arena offset.
struct Life {
  int64_t birth = 0, death = 0, bytes = 0;
  int64_t offset = 0;
};

// Bytes that are taken already: used[c] of them from `offset` on, at position c.
struct Region {
  int64_t offset = 0;
  std::vector<int64_t> used;
};

// Of each of the first so many positions, the bytes of the lives that are alive there: no packing
// needs less than the most of them. All lives end before that.
std::vector<int64_t> bytes_alive(const std::vector<Life>& lives, size_t positions);

// Gives every life an offset, a multiple of `alignment`, clear of the regions and of the lives that
// it meets; returns where the last one ends. What is placed first finds the most room, so several
// orders are tried, and then, as long as more than what is alive together is needed, the best of
// them with what came to lie on top moved to its front. All regions have an entry for each
// position. Takes n log n for n lives of which few meet any one of the others.
int64_t pack(std::vector<Life>& lives, const std::vector<Region>& regions, int64_t alignment);

}  // namespace tessera::compile
