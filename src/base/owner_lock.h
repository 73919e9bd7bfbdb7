// A lock file that gives a folder or a set of files one owner at a time: across processes and
// hosts, on local disks and NFS, and after crashes.
//
// The kernel or the file server releases a record lock on the file (fcntl) when its process ends,
// for whatever reason. Some network file systems have no record locks, or only within one host, so
// the file also contains a record of its owner, and the owner renews the file's modification time
// at every heartbeat. The owner in a record counts as ended if
//   - its process is from this boot, and the record lock is free or the process no longer runs, or
//   - its process is from another boot, and the file's time has not changed for `stale_s`.
//
// People remove lock files, and rename or remove folders in use, so the owner calls
// require_owned() before it writes something that must not be mixed with the files of another
// owner.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/process_identity.h"

namespace tessera {

// The text of a lock file, which names its owner.
struct LockOwner {
  std::string host;
  ProcessIdentity process;
  uint32_t boot = 0;    // identifies the boot of its host
  std::string started;  // time at which it acquired the lock, as text for people
  std::string token;    // different for each lock
};

std::string to_text(const LockOwner& owner);
// Returns nothing if a crash left no complete record. `file` is the name of the lock file for
// messages.
std::optional<LockOwner> owner_of(const std::string& record, const Path& file);
// Returns true if the record is that of a lock file, complete or cut off by a crash: some file
// systems leave zeros where data was not written. Other files are never replaced.
bool may_be_ours(const std::string& record);

struct OwnerLockOptions {
  std::string subject;  // the locked object: "run directory runs/a"
  std::string advice;   // advice for the user if another process owns it
  double heartbeat_s = 15, stale_s = 120;
  bool record_locks = true;                          // false: as on a file system without them
  std::function<void(const std::string&)> say = {};  // called with a message before a wait
};

// The process no longer owns the lock, and waiting does not help.
class LostOwnership : public Error {
  using Error::Error;
};

class OwnerLock {
 public:
  // Acquires the lock. If the last owner was on another machine and may still run, waits at most
  // `stale_s` for a renewal by that owner. If the lock is owned, throws Error that names host,
  // process and start of the owner.
  OwnerLock(Path file, OwnerLockOptions options);
  // Releases the lock and removes the file, unless the file belongs to another owner by now.
  ~OwnerLock();
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  // Checks that this process still owns the lock. Creates the file again if it was removed, with or
  // without its folder. Throws LostOwnership if the file belongs to another owner or the folder was
  // renamed; every later call then throws, too. File system errors do not count as lost ownership.
  // Thread safe.
  void require_owned();
  // Returns the message of the LostOwnership that require_owned() has thrown, or an empty text.
  std::string lost() const;
  // Returns the current name of the file's folder if it was renamed and still contains the lock of
  // this process.
  std::optional<Path> renamed_folder() const;

 private:
  class Handle;
  class Folder;
  enum class Step : uint8_t { kTaken, kAgain };

  bool open_file();
  Step try_record_lock();
  Step try_exclusive_file();
  void require_lock_file(const std::string& record) const;
  bool has_ended(const LockOwner& owner);
  Step take_over(const std::string& record);
  [[noreturn]] void refuse(const std::optional<LockOwner>& owner) const;
  void write_record();
  void renew();
  void check();
  void take_again();

  Path file_;
  OwnerLockOptions options_;
  LockOwner own_;
  std::unique_ptr<Handle> handle_;
  std::unique_ptr<Folder> folder_;
  mutable std::mutex mutex_;  // protects all members except file_ once the lock is acquired
  std::condition_variable ends_;
  bool ending_ = false;
  bool waited_ = false;  // has waited for a file server to release the lock of a crashed host
  std::string lost_;     // the reason why this process no longer owns the lock
  std::thread heartbeat_;
};

}  // namespace tessera
