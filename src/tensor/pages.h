// Ranges of whole memory pages, for pinning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

struct MemoryRange {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  bool operator==(const MemoryRange&) const = default;
};

constexpr int64_t kPageBytes = 4096;  // the smallest page size of all supported systems

// Returns the pages that these ranges touch, sorted by address, with overlapping and adjacent
// ranges merged. Empty ranges touch no page.
std::vector<MemoryRange> whole_pages(std::span<const MemoryRange> ranges);

// Splits a range so that each piece is entirely inside one of `pages` or outside of all. Returns
// the pieces in order. `pages` is sorted by address, as whole_pages() returns it.
std::vector<MemoryRange> whole_or_none(MemoryRange range, std::span<const MemoryRange> pages);

// Returns how many bytes of a range are in physical memory (mincore), or -1 if the system does not
// report it.
int64_t resident_bytes(MemoryRange range);

}  // namespace tessera
