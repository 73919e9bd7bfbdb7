// Whole pages of memory.
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

constexpr int64_t kPageBytes = 4096;  // the smallest page of every system we run on

// The pages that these ranges touch, by rising address; ranges of it neither meet nor stand side by
// side. Empty ranges touch none.
std::vector<MemoryRange> whole_pages(std::span<const MemoryRange> ranges);

// A range in order, cut so that each piece lies whole within one of `pages` (by rising address, as
// whole_pages gives them) or outside of all.
std::vector<MemoryRange> whole_or_none(MemoryRange range, std::span<const MemoryRange> pages);

}  // namespace tessera
