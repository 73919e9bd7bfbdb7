// The folder of a run that is being started, which may be refused before it has begun.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/owner_lock.h"

namespace tessera {

// Creates the directory and its missing parents. Throws Error.
void make_run_directory(const Path& directory);

// Locks the run directory for this process, and creates it if it is missing (base/owner_lock.h).
// Call it before anything in the directory is written, or read for resuming. Throws Error that
// names the owner.
std::unique_ptr<OwnerLock> lock_run_directory(const Path& directory,
                                              const std::function<void(const std::string&)>& say);

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

}  // namespace tessera
