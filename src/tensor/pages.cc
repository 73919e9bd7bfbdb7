// Page ranges for pinning: rounds ranges to pages, sorts them and merges adjacent ones, because the
// driver rejects pages that are registered twice.
#include "tensor/pages.h"

#include <algorithm>
#include <functional>

namespace tessera {

std::vector<MemoryRange> whole_pages(std::span<const MemoryRange> ranges) {
  std::vector<MemoryRange> pages;
  for (const MemoryRange& r : ranges) {
    if (r.bytes == 0) continue;
    const int64_t before = reinterpret_cast<uintptr_t>(r.data) % kPageBytes;
    const int64_t bytes = (before + r.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    pages.push_back({r.data - before, bytes});
  }
  const std::less<const std::byte*> before;
  std::sort(pages.begin(), pages.end(),
            [&](const MemoryRange& a, const MemoryRange& b) { return before(a.data, b.data); });
  std::vector<MemoryRange> merged;
  for (const MemoryRange& p : pages) {
    if (merged.empty() || before(merged.back().data + merged.back().bytes, p.data)) {
      merged.push_back(p);
      continue;
    }
    MemoryRange& last = merged.back();
    last.bytes = std::max(last.bytes, p.data + p.bytes - last.data);
  }
  return merged;
}

// Splits a range where pinned pages begin and end, so that each piece is completely pinned or not:
//
//   pages        [ pinned ]        [ pinned ]
//   range    |-----------------------------|
//   pieces   |---|--------|--------|-------|
std::vector<MemoryRange> whole_or_none(MemoryRange range, std::span<const MemoryRange> pages) {
  std::vector<MemoryRange> pieces;
  const std::less<const std::byte*> before;
  std::byte* const end = range.data + range.bytes;
  std::byte* at = range.data;
  const auto cut = [&](std::byte* to) {
    to = before(to, end) ? to : end;
    if (!before(at, to)) return;
    pieces.push_back({at, to - at});
    at = to;
  };
  // Cut at both ends of every pinned range; `cut` ignores points outside of the remaining range.
  for (const MemoryRange& p : pages) {
    cut(p.data);
    cut(p.data + p.bytes);
  }
  cut(end);
  return pieces;
}

}  // namespace tessera
