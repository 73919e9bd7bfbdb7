// Names of temporary files and folders that no two processes share, and the removal of those that a
// process left when it was killed.
//
//   PATH.<machine>-<pid>-<start>-<random>.part     in the folder of PATH
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/process_identity.h"

namespace tessera {

// Returns a new name next to `path`. Create it exclusively (O_EXCL, mkdir): no link is followed.
Path temporary_name(const Path& path);

struct TemporaryName {
  std::string base;  // the name it is temporary for
  ProcessIdentity maker;
};

// Parses a file name; nothing if it is not a temporary one.
std::optional<TemporaryName> parse_temporary(std::string_view name);

// Returns true if no process writes `temporary` any more: its maker on this machine has ended, or
// its maker ran on another machine and wrote nothing for an hour before `fresh` was written.
// `fresh` is on the same file system, so both times are of the same clock.
bool is_abandoned(const Path& temporary, const ProcessIdentity& maker, const Path& fresh);

// Removes what ended processes left of `path`. `fresh`: as above. What cannot be removed stays.
void remove_abandoned(const Path& path, const Path& fresh);

}  // namespace tessera
