// Identifies a process by boot, PID namespace, PID and start time, as /proc shows them. A PID alone
// is not enough: it is reused, it differs between containers, and it repeats after a reboot.
#include "base/process_identity.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/philox.h"

namespace tessera {
namespace {

constexpr unsigned long kExiting = 0x4;  // PF_EXITING of the kernel

std::string first_bytes(const std::string& path) {
  std::array<char, 4096> text;
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return "";
  const size_t n = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  return {text.data(), n};
}

struct Status {
  char state = '?';
  unsigned long flags = 0;
  int64_t start = 0;
};

// Parses /proc/PID/stat (proc(5)). Field 2, the name in parentheses, may contain spaces and
// parentheses, so fields are counted from the last ')'. Field 3 is the state, 9 the flags, 22 the
// start time in clock ticks since the boot.
std::optional<Status> status_of(int64_t pid) {
  const std::string text = first_bytes("/proc/" + std::to_string(pid) + "/stat");
  const size_t name = text.rfind(')');
  if (name == std::string::npos || name + 2 >= text.size()) return std::nullopt;
  Status s;
  s.state = text[name + 2];
  size_t at = name + 2;
  for (int field = 3; at != std::string::npos && at < text.size(); ++field) {
    if (field == 9) s.flags = std::strtoul(text.c_str() + at, nullptr, 10);
    if (field == 22) s.start = std::strtoll(text.c_str() + at, nullptr, 10);
    at = text.find(' ', at);
    if (at != std::string::npos) ++at;
  }
  return s;
}

// The boot id is a random UUID that the kernel creates at every boot.
std::string boot_text() {
  std::string text = first_bytes("/proc/sys/kernel/random/boot_id");
  return text.empty() ? host_of_this_process() : text;
}

uint32_t hash(std::string_view text) {
  const uint64_t h = hash_name(text);
  return static_cast<uint32_t>(h ^ (h >> 32));
}

// Two containers on one host share the boot id but not their PIDs, so the namespace is part of it.
uint32_t this_machine() {
  std::string text = boot_text();
  std::array<char, 64> space;
  const ssize_t n = ::readlink("/proc/self/ns/pid", space.data(), space.size());
  if (n > 0) text.append(space.data(), n);
  return hash(text);
}

}  // namespace

std::string host_of_this_process() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

uint32_t this_boot() { return hash(boot_text()); }

ProcessIdentity this_process() {
  const int64_t pid = ::getpid();
  const std::optional<Status> status = status_of(pid);
  return {this_machine(), pid, status ? status->start : 0};
}

Running running(const ProcessIdentity& process) {
  if (process.machine != this_machine()) return Running::kUnknown;
  if (process.pid <= 0) return Running::kNo;
  // Signal 0 only tests existence. EPERM means that the process exists and belongs to another user.
  if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return Running::kNo;
  const std::optional<Status> status = status_of(process.pid);
  // Without /proc the start time is unknown. The safe answer is that the process still runs.
  if (!status || process.start == 0) return Running::kYes;
  // Z: a zombie, whose parent has not collected it. X: dead.
  const bool ended = status->state == 'Z' || status->state == 'X';
  return status->start == process.start && !ended ? Running::kYes : Running::kNo;
}

bool is_exiting(const ProcessIdentity& process) {
  const Running now = running(process);
  if (now != Running::kYes) return now == Running::kNo;
  const std::optional<Status> status = status_of(process.pid);
  // A killed process with much memory can take seconds to free it; it holds its locks until then.
  return status && (status->flags & kExiting) != 0;
}

}  // namespace tessera
