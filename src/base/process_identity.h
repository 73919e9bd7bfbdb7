// Identifies a process, so that other processes can later find out whether it still runs.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct ProcessIdentity {
  uint32_t machine = 0;  // identifies the boot and the PID namespace that `pid` belongs to
  int64_t pid = 0;
  int64_t start = 0;  // start time in ticks since the boot, because process ids are reused

  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity this_process();
std::string host_of_this_process();
uint32_t this_boot();  // different for each host and each boot

enum class Running : uint8_t { kNo, kYes, kUnknown };  // kUnknown: it belongs to another machine

Running running(const ProcessIdentity& process);
// Returns true if the process is exiting: it was killed and is freeing its memory, or is a zombie.
bool is_exiting(const ProcessIdentity& process);

}  // namespace tessera
