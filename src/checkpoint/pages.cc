#include "checkpoint/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace tessera {

void release_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(mapped.data());
  const uintptr_t begin = (at + page - 1) / page * page, end = (at + mapped.size()) / page * page;
  // Only a hint: where the system does not take it, the pages stay until it needs them.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tessera
