// The folder of a run that is being started, which may be refused before it has begun.
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

// Creates the directory and its missing parents. Throws Error, also if log.txt or metrics.jsonl in
// it is a link or another thing that a run must not write to.
void make_run_directory(const Path& directory);

// Whether a run may write `path`: nothing is there, or a file that begins with `mark`, as only
// files of earlier starts do.
bool may_replace(const Path& path, std::string_view mark);

// Locks the run directory for this process, and creates it if it is missing (base/owner_lock.h).
// Call it before anything in the directory is written, or read for resuming. Throws Error that
// names the owner.
std::unique_ptr<OwnerLock> lock_run_directory(const Path& directory,
                                              const std::function<void(const std::string&)>& say);

// The run directory as a run asks whether it still owns it. Rank 0 has the lock; on the other
// ranks, and without a lock, nothing is ever lost.
class RunOwner {
 public:
  RunOwner() = default;
  RunOwner(OwnerLock* lock, Path directory) : lock_(lock), directory_(std::move(directory)) {}

  void require() const;  // throws LostOwnership
  bool owns() const;
  // The same for files that are open: they moved with a directory that was renamed.
  bool owns_open_files() const;
  // Collective. Returns where the last step may be saved after a loss: in the directory under its
  // new name if it was only renamed, or else in a new one next to it. Empty: nothing was lost.
  Path place_after_loss(comm::World& world) const;

 private:
  OwnerLock* lock_ = nullptr;
  Path directory_;
};

// A start that fails leaves no trace where it made the folder and its run has not begun, that is
// where it holds only log.txt and the lock. Any other folder is kept, and the log has the reason
// why the start or the run failed. On every rank, made before any of them makes the folder.
class RunFolder {
 public:
  explicit RunFolder(const Path& folder);

  // After train() has thrown. `writes_log`: of the ranks one, so that the log says it once. What
  // cannot be removed or written is left: there is an error to be told already.
  void failed(std::string_view error, bool writes_log) const noexcept;
  // Call it if locking fails: removes the folders that this process created and that are still
  // empty.
  void not_locked() const noexcept;

 private:
  Path folder_;
  std::vector<Path> absent_;  // it and the folders above it that were not there, the inmost first
};

// ---- The resolved configuration that a run leaves in its directory.

// How such a file begins.
inline constexpr std::string_view kRunFileMark = "# The whole configuration as it ran, tessera ";

// Writes the configuration to run.yaml in the run directory. A file that a person made is never
// overwritten: where run.yaml is the run file that was given (config.source), or was not written by
// this function, the configuration is written to run.resolved.yaml instead. Returns the path.
// Throws Error.
Path write_run_file(const config::RunConfig& config, const std::string& version);

}  // namespace tessera::train
