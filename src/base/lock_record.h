// The text of a lock file, which names its owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/process_identity.h"

namespace tessera {

struct LockOwner {
  std::string host;
  ProcessIdentity process;
  uint32_t boot = 0;    // of its host
  std::string started;  // when it took the lock, as text for people
  std::string token;    // differs for each taking
};

std::string to_text(const LockOwner& owner);
// Returns nothing if a crash left no complete record. `file` is its name, for messages.
std::optional<LockOwner> owner_of(const std::string& record, const Path& file);
// Returns true if the record is one of these lock files, complete or cut off by a crash: some file
// systems leave zeros where data was not written. Other files are never taken over.
bool may_be_ours(const std::string& record);

}  // namespace tessera
