// Page ranges for pinning: rounds ranges to pages, sorts them and merges adjacent ones, because the
// driver rejects pages that are registered twice. Also the pages of a range in physical memory.
#include "tensor/pages.h"

#include <sys/mman.h>
#include <unistd.h>

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

// Asks for 64 MiB at a time, so that the answer, one byte per page, stays small.
int64_t resident_bytes(MemoryRange range) {
  constexpr int64_t kAtOnce = int64_t{64} << 20;
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const int64_t before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(range.data)) % page;
  std::byte* const first = range.data - before;
  const int64_t end = before + range.bytes;  // counted from `first`
  std::vector<unsigned char> answers(kAtOnce / page);
  int64_t resident = 0;
  for (int64_t at = 0; at < end; at += kAtOnce) {
    const int64_t bytes = std::min(kAtOnce, end - at);
    if (::mincore(first + at, bytes, answers.data()) != 0) return -1;
    for (int64_t i = 0; i * page < bytes; ++i) {
      if ((answers[i] & 1) == 0) continue;
      // The first and the last page may be partly outside of the range.
      const int64_t from = std::max(at + i * page, before);
      resident += std::min(at + (i + 1) * page, end) - from;
    }
  }
  return resident;
}

}  // namespace tessera
