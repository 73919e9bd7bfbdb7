// The directory of a run: creation, ownership, removal after a failed start, and run.yaml.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/owner_lock.h"
#include "comm/world.h"
#include "config/run_config.h"

namespace tessera::train {

// Creates the directory and its missing parents. Throws Error if that fails, or if log.txt or
// metrics.jsonl in it is not a regular file.
void make_run_directory(const Path& directory);

// Returns true if a run may write `path`: nothing exists there, or a file that begins with `mark`,
// which means that an earlier start wrote it.
bool may_replace(const Path& path, std::string_view mark);

// Locks the run directory for this process, and creates it if it is missing (base/owner_lock.h).
// Call it before anything in the directory is written, or read for resuming. Throws Error that
// names the owner.
std::unique_ptr<OwnerLock> lock_run_directory(const Path& directory,
                                              const std::function<void(const std::string&)>& say);

// Checks whether a run still owns its directory. Rank 0 has the lock; on other ranks, and without a
// lock, ownership is never lost.
class RunOwner {
 public:
  RunOwner() = default;
  RunOwner(OwnerLock* lock, Path directory) : lock_(lock), directory_(std::move(directory)) {}

  void require() const;  // throws LostOwnership
  bool owns() const;
  // Returns the same for open files, which remain valid if the directory was only renamed.
  bool owns_open_files() const;
  // Returns where the last step may be saved after ownership was lost: the directory under its new
  // name if it was only renamed, else a new directory next to it. Returns an empty path if
  // ownership was not lost. Collective.
  Path place_after_loss(comm::World& world) const;

 private:
  OwnerLock* lock_ = nullptr;
  Path directory_;
};

// Cleans up after a failed start. A run directory that the start created and that contains only
// log.txt and the lock is removed. Any other one is kept, and the reason of the failure is written
// to its log. Every rank has this object, constructed before any rank creates the directory.
class RunFolder {
 public:
  explicit RunFolder(const Path& folder);

  // Call it after train() has thrown. `writes_log` is true on one rank, so that the log has the
  // error once. Failures to remove or write are ignored, since an error is being reported already.
  void failed(std::string_view error, bool writes_log) const noexcept;
  // Call it if locking fails: removes the directories that this process created and that are still
  // empty.
  void not_locked() const noexcept;

 private:
  Path folder_;
  std::vector<Path> absent_;  // the directory and its parents that were missing, innermost first
};

// ---- The resolved configuration in the run directory.

// The start of the first line of such a file.
inline constexpr std::string_view kRunFileMark = "# The whole configuration as it ran, tessera ";

// Writes the configuration to run.yaml in the run directory and returns the path. A user's file is
// never overwritten: if run.yaml is the given run file (config.source), or was not written by this
// function, the configuration is written to run.resolved.yaml instead. Throws Error if it cannot be
// written.
Path write_run_file(const config::RunConfig& config, const std::string& version);

}  // namespace tessera::train
