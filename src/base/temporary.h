// Unique names of temporary files and folders, and the removal of those that a killed process left.
//
//   PATH.<machine>-<pid>-<start>-<random>.part     in the folder of PATH
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/process_identity.h"

namespace tessera {

// Returns a new name next to `path`. The caller must create it exclusively (O_EXCL, mkdir), so that
// no link is followed.
Path temporary_name(const Path& path);

struct TemporaryName {
  std::string base;  // the final name
  ProcessIdentity maker;
};

// Parses a file name. Returns nothing if it is not a temporary name.
std::optional<TemporaryName> parse_temporary(std::string_view name);

// Returns true if no process writes `temporary` any more: its maker ran on this machine and has
// ended, or its maker ran on another machine and wrote nothing for an hour before `fresh` was
// written. `fresh` is on the same file system, so both times are from the same clock.
bool is_abandoned(const Path& temporary, const ProcessIdentity& maker, const Path& fresh);

// Removes the temporary files of `path` that ended processes left. `fresh`: see is_abandoned().
// Files that cannot be removed are ignored.
void remove_abandoned(const Path& path, const Path& fresh);

}  // namespace tessera
