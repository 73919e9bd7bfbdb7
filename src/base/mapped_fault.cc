// Converts SIGBUS on watched mappings into errors. The handler looks the address up in a fixed
// table of atomics, because a signal handler must not lock a mutex or allocate memory. It maps a
// page of zeros over the page that failed, so that the interrupted load completes, and records the
// failure for require_mapped_reads().
#include "base/mapped_fault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "base/error.h"

namespace tessera {
namespace {

struct Mapping {
  std::atomic<uintptr_t> begin{0}, end{0};  // end 0: the entry is free
  std::array<char, 512> path{};
};

// The table is global, because a signal handler receives no argument from the program.
std::array<Mapping, 4096> mappings;
std::array<char, 512> failed_path;  // file of the first read that failed
std::atomic<int64_t> failed_byte{-1};
std::mutex changing;
struct sigaction before;
uintptr_t page = 4096;

bool replace_page(uintptr_t address) {
  for (Mapping& m : mappings) {
    const uintptr_t begin = m.begin.load();
    if (address < begin || address >= m.end.load()) continue;
    // MAP_FIXED replaces the page atomically; when the handler returns, the load is repeated on the
    // new page.
    const uintptr_t first = address / page * page;
    void* at = ::mmap(reinterpret_cast<void*>(first), page, PROT_READ,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED) return false;
    // Only the first failure is recorded; later ones usually have the same cause.
    if (failed_byte.load() < 0) {
      failed_path = m.path;
      failed_byte.store(static_cast<int64_t>(first - begin));
    }
    return true;
  }
  return false;
}

void on_bus_error(int, siginfo_t* info, void*) {
  const int error = errno;
  // The address is not in a watched mapping. Restores the previous handler, under which the same
  // instruction fails again, so a bug in the program still ends it with a core dump.
  if (!replace_page(reinterpret_cast<uintptr_t>(info->si_addr)))
    ::sigaction(SIGBUS, &before, nullptr);
  errno = error;
}

void install() {
  static const bool once = [] {
    page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction ours {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGBUS, &ours, &before) == 0;
  }();
  static_cast<void>(once);
}

}  // namespace

void watch_mapping(const void* begin, size_t bytes, std::string_view path) {
  const std::lock_guard lock(changing);
  install();
  const auto unused = std::find_if(mappings.begin(), mappings.end(),
                                   [](const Mapping& m) { return m.end.load() == 0; });
  if (unused == mappings.end()) return;
  unused->path.fill('\0');
  std::memcpy(unused->path.data(), path.data(), std::min(path.size(), unused->path.size() - 1));
  // `end` is stored last: the handler sees either a free entry or a complete one.
  const auto from = reinterpret_cast<uintptr_t>(begin);
  unused->begin.store(from);
  // A mapping ends at a page boundary, even if the file does not.
  unused->end.store((from + bytes + page - 1) / page * page);
}

void forget_mapping(const void* begin) {
  const std::lock_guard lock(changing);
  for (Mapping& m : mappings)
    if (m.begin.load() == reinterpret_cast<uintptr_t>(begin)) m.end.store(0);
}

void require_mapped_reads() {
  if (failed_byte.load() < 0) return;
  // The lock orders concurrent callers: the exchange lets one of them report the failure.
  const std::lock_guard lock(changing);
  const int64_t byte = failed_byte.exchange(-1);
  if (byte < 0) return;
  throw Error(
      "{}: cannot be read from byte {} onward: the file was truncated while in use, or its disk "
      "failed. Restore it, or use another file",
      failed_path.data(), byte);
}

}  // namespace tessera
