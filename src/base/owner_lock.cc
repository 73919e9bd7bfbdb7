// An exclusive lock file that works with and without kernel record locks (owner_lock.h).
//
// With record locks, the kernel decides which process owns the file, and the record in it only
// names the owner. The exception is an owner on another host: a file server may hold a lock for a
// crashed host, or may not share locks between hosts. So if the record is from another boot, the
// lock must be free and the file's time must not have changed for `stale_s`.
//
// Without record locks, exclusive creation of the file decides, which is atomic on local disks and
// on NFS from version 3. Another process may replace the file of an owner that has ended. Before
// that, it creates a second file exclusively (the claim), so that only one process replaces it.
//
// The age of a file is the difference between two times that one file server assigned. Clocks of
// different hosts are never compared.
#include "base/owner_lock.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/temporary.h"

namespace tessera {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr auto kShortly = std::chrono::milliseconds(20);
constexpr int kShortWaits = 3000;  // one minute in total: a killed process first frees its memory
constexpr double kOldClaim_s = 10;

std::string utc(std::time_t seconds) {
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  text[std::strftime(text.data(), text.size() - 1, "%Y-%m-%d %H:%M:%S UTC", &parts)] = '\0';
  return text.data();
}

}  // namespace

// The open lock file.
class OwnerLock::Handle {
 public:
  // `file` is the name of the lock file; `opened` is the same name, or that of a new file.
  Handle(const Path& file, const Path& opened, int flags)
      : file_(file),
        fd_(::open(opened.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666)) {
    if (fd_ < 0) error_ = errno;
    if (error_ == ELOOP)
      throw NotAFile("{}: is a link, expected a lock file. Remove the link.", file.string());
    if (fd_ < 0) return;
    struct stat s {};
    if (::fstat(fd_, &s) != 0 || !S_ISREG(s.st_mode)) {
      ::close(fd_);
      throw NotAFile("{}: is not a regular file, expected a lock file. Move it away.",
                     file.string());
    }
  }
  ~Handle() {
    if (fd_ >= 0) ::close(fd_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int error() const { return error_; }  // errno of opening; 0: the file is open

  // Acquires the record lock without waiting. Returns 0, or the errno of the failure. The lock
  // belongs to the open file description (F_OFD_SETLK) and not to the process: closing another
  // descriptor of the same file, which would release a POSIX record lock, does not release it.
  int lock() const {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    return ::fcntl(fd_, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
  }

  // Returns true if the name still refers to the open file. Between open() and lock() its owner may
  // have removed it and a third process may have created another; a lock on the removed file has no
  // effect.
  bool has_the_name() const { return is_at(AT_FDCWD, file_) == 0; }
  // Returns 0 if this file is at that path, ESTALE if another file is, or the errno of the failure.
  int is_at(int folder, const Path& path) const {
    struct stat own {
    }, named{};
    if (::fstat(fd_, &own) != 0 ||
        ::fstatat(folder, path.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0)
      return errno;
    return own.st_ino == named.st_ino && own.st_dev == named.st_dev ? 0 : ESTALE;
  }

  std::string read() const {
    std::array<char, 4096> bytes;
    const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), 0);
    if (n < 0) throw FileError(file_, "cannot be read", errno);
    return {bytes.data(), static_cast<size_t>(n)};
  }

  void write(const std::string& record) const {
    const ssize_t n = ::pwrite(fd_, record.data(), record.size(), 0);
    if (n < 0) throw FileError(file_, "cannot be written", errno);
    // The record is short enough to be written by one call. It overwrites that of an earlier owner,
    // and the file is then truncated to its length.
    if (::ftruncate(fd_, static_cast<off_t>(record.size())) != 0 || ::fsync(fd_) != 0)
      throw FileError(file_, "cannot be written", errno);
  }

  // Sets the modification time to the current time of the host that stores the file.
  void renew() const {
    const struct timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    ::futimens(fd_, now);
  }
  std::time_t time() const {
    struct stat s {};
    return ::fstat(fd_, &s) == 0 ? s.st_mtim.tv_sec : 0;
  }

 private:
  const Path& file_;
  int fd_, error_ = 0;
};

// The folder of the lock file, held open so that it can be identified after it was renamed or
// removed.
class OwnerLock::Folder {
 public:
  explicit Folder(const Path& file)
      : path_(file.has_parent_path() ? file.parent_path() : Path(".")),
        fd_(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  ~Folder() {
    if (fd_ >= 0) ::close(fd_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const Path& path() const { return path_; }
  int fd() const { return fd_; }

  enum class Fate : uint8_t { kInPlace, kRenamed, kRemoved };
  // Returns what happened to the folder. If that cannot be determined, returns kInPlace.
  Fate fate() const {
    struct stat own {
    }, named{};
    if (fd_ < 0) return Fate::kInPlace;
    const bool stale = ::fstat(fd_, &own) != 0 && errno == ESTALE;
    if (stale || own.st_nlink == 0) return Fate::kRemoved;
    if (::stat(path_.c_str(), &named) != 0)
      return errno == ENOENT || errno == ENOTDIR ? Fate::kRenamed : Fate::kInPlace;
    return own.st_ino == named.st_ino && own.st_dev == named.st_dev ? Fate::kInPlace
                                                                    : Fate::kRenamed;
  }
  // Returns the current name of the folder.
  Path present_name() const {
    std::error_code error;
    const Path name = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd_), error);
    return error ? Path() : name;
  }

 private:
  Path path_;
  int fd_;
};

namespace {

// The state of the file, as a new open() shows it. A network file system revalidates its cached
// attributes at open (close-to-open consistency), so polling an open descriptor would not see the
// owner's renewals.
struct Look {
  bool there = false;
  std::string record;
  double time_s = 0;  // time of the last modification
};

Look look_at(const Path& file) {
  Look look;
  const int fd = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return look;
  std::array<char, 4096> bytes;
  struct stat s {};
  const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), 0);
  if (n >= 0 && ::fstat(fd, &s) == 0) {
    look = {true,
            {bytes.data(), static_cast<size_t>(n)},
            static_cast<double>(s.st_mtim.tv_sec) + 1e-9 * static_cast<double>(s.st_mtim.tv_nsec)};
  }
  ::close(fd);
  return look;
}

// Returns the current time of the host that stores the file, read from a new file there.
double time_there_s(const Path& file) {
  const Path probe = temporary_name(file);
  const int fd = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) throw FileError(probe, "cannot be created", errno);
  ::close(fd);
  const double now = look_at(probe).time_s;
  ::unlink(probe.c_str());
  return now;
}

}  // namespace

OwnerLock::OwnerLock(Path file, OwnerLockOptions options)
    : file_(std::move(file)), options_(std::move(options)) {
  own_ = {host_of_this_process(), this_process(), this_boot(), "", temporary_name("").string()};
  // Every attempt ends with kTaken, with kAgain (another process changed the file meanwhile), or
  // with an error that names the owner.
  for (int tries = 0;; ++tries) {
    if (tries == kShortWaits) refuse(owner_of(look_at(file_).record, file_));
    const Step step = options_.record_locks ? try_record_lock() : try_exclusive_file();
    if (step == Step::kTaken) break;
    std::this_thread::sleep_for(kShortly);
  }
  folder_ = std::make_unique<Folder>(file_);
  heartbeat_ = std::thread([this] { renew(); });
}

OwnerLock::~OwnerLock() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  heartbeat_.join();
  // A process that opened this file before its removal detects the removal with has_the_name(). The
  // folder may have been renamed.
  const Path name = file_.filename();
  if (handle_->is_at(folder_->fd(), name) == 0) ::unlinkat(folder_->fd(), name.c_str(), 0);
}

// Opens the file, or creates it. Returns whether this call created it.
bool OwnerLock::open_file() {
  handle_ = std::make_unique<Handle>(file_, file_, O_RDWR);
  if (handle_->error() != ENOENT) {
    if (handle_->error() != 0) throw FileError(file_, "cannot be opened", handle_->error());
    return false;
  }
  handle_ = std::make_unique<Handle>(file_, file_, O_RDWR | O_CREAT | O_EXCL);
  // Another process created the file between the two calls, or removed it again: start over.
  if (handle_->error() == EEXIST) return open_file();
  if (handle_->error() != 0) throw FileError(file_, "cannot be created", handle_->error());
  return true;
}

OwnerLock::Step OwnerLock::try_record_lock() {
  const bool created = open_file();
  const int error = handle_->lock();
  const std::string record = handle_->read();
  const std::optional<LockOwner> owner = owner_of(record, file_);
  if (error == EACCES || error == EAGAIN) {
    // These owners are not reported, because they soon change: an owner that has not written its
    // record yet, one that was killed and is still exiting, and one that has just released the lock
    // and removed the file.
    const bool passes = (!owner && may_be_ours(record)) || (owner && is_exiting(owner->process)) ||
                        !handle_->has_the_name();
    if (passes) return Step::kAgain;
    // The owner's host may have crashed or be unreachable: a file server keeps its lock until a
    // lease expires. Wait once for that, or for a renewal.
    if (owner && owner->boot != own_.boot && !std::exchange(waited_, true)) {
      has_ended(*owner);
      return Step::kAgain;
    }
    refuse(owner);
  }
  if (error != 0) {  // ENOLCK, ENOSYS, EOPNOTSUPP …: this file system has no record locks
    options_.record_locks = false;
    if (!created) return Step::kAgain;
    write_record();
    return Step::kTaken;
  }
  // Checked now, and again after a wait: only a lock on the file that has the name is valid.
  if (!handle_->has_the_name()) return Step::kAgain;
  require_lock_file(record);
  // This process holds the record lock, so an owner of this boot has ended.
  if (owner && owner->boot != own_.boot && !has_ended(*owner)) return Step::kAgain;
  if (!handle_->has_the_name()) return Step::kAgain;
  write_record();
  return Step::kTaken;
}

// Without record locks, the creation of the file decides.
OwnerLock::Step OwnerLock::try_exclusive_file() {
  handle_ = std::make_unique<Handle>(file_, file_, O_RDWR | O_CREAT | O_EXCL);
  if (handle_->error() == 0) {
    write_record();
    return Step::kTaken;
  }
  if (handle_->error() != EEXIST) throw FileError(file_, "cannot be created", handle_->error());
  // The file exists. Read its record, find out whether the owner still runs, and replace the file
  // only if the record has not changed since.
  const Look before = look_at(file_);
  if (!before.there) return Step::kAgain;
  require_lock_file(before.record);
  const std::optional<LockOwner> owner = owner_of(before.record, file_);
  const Running now = owner ? running(owner->process) : Running::kUnknown;
  if (now == Running::kYes && is_exiting(owner->process)) return Step::kAgain;
  if (now == Running::kYes) refuse(owner);
  // An incomplete record has no process to look up, so the age of the file decides.
  if (now == Running::kUnknown && !has_ended(owner.value_or(LockOwner{}))) return Step::kAgain;
  return take_over(before.record);
}

// If several processes find that the owner has ended, the one that creates the claim replaces the
// file.
OwnerLock::Step OwnerLock::take_over(const std::string& record) {
  struct Claim {
    explicit Claim(Path path)
        : name(std::move(path)),
          fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {}
    ~Claim() {
      if (fd < 0) return;
      ::close(fd);
      ::unlink(name.c_str());
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    Path name;
    int fd;
  };
  const Claim claim(Path(file_) += ".claim");
  if (claim.fd < 0) {
    // A claim is held for milliseconds, so an old one belongs to a process that was killed
    // meanwhile.
    const Look old = look_at(claim.name);
    if (old.there && time_there_s(file_) - old.time_s > kOldClaim_s) ::unlink(claim.name.c_str());
    return Step::kAgain;
  }
  // While this process holds the claim, no other process replaces the file. If one did so before,
  // the record differs.
  if (look_at(file_).record != record) return Step::kAgain;
  const Path fresh = temporary_name(file_);
  // The record is written before the file gets its name, so no process ever sees it empty.
  handle_ = std::make_unique<Handle>(file_, fresh, O_RDWR | O_CREAT | O_EXCL);
  if (handle_->error() != 0) throw FileError(fresh, "cannot be created", handle_->error());
  write_record();
  if (::rename(fresh.c_str(), file_.c_str()) == 0) return Step::kTaken;
  const int error = errno;
  ::unlink(fresh.c_str());
  throw FileError(file_, "cannot be replaced", error);
}

void OwnerLock::require_lock_file(const std::string& record) const {
  if (may_be_ours(record)) return;
  throw Error("{}: is not a Tessera lock file. Move it away.", file_.string());
}

// Waits until the owner has not renewed the file for `stale_s`. Returns false if the file was
// removed. Throws Error if the owner renews it.
bool OwnerLock::has_ended(const LockOwner& owner) {
  // The age is clamped, because the owner may have renewed the file meanwhile, or the server's
  // clock may have been set.
  const Look first = look_at(file_);
  const double age = std::clamp(time_there_s(file_) - first.time_s, 0.0, options_.stale_s);
  const double poll_s = std::min(0.5, options_.heartbeat_s / 4);
  double left = options_.stale_s - age;
  if (left > 0 && options_.say)
    options_.say(fmt::format(
        "{}: its last owner, process {} on {}, did not release it. Waiting at most {:.0f} s to see "
        "whether it still runs.",
        options_.subject, owner.process.pid, owner.host, left));
  for (; left > 0; left -= poll_s) {
    std::this_thread::sleep_for(Seconds(poll_s));
    const Look now = look_at(file_);
    if (!now.there) return false;
    if (now.time_s != first.time_s || now.record != first.record)
      refuse(owner_of(now.record, file_));
  }
  return true;
}

void OwnerLock::refuse(const std::optional<LockOwner>& owner) const {
  if (!owner)
    throw Error("{}: another process owns it (see {}). {}", options_.subject, file_.string(),
                options_.advice);
  throw Error("{}: process {} on {} has owned it since {}. {}", options_.subject,
              owner->process.pid, owner->host, owner->started, options_.advice);
}

void OwnerLock::write_record() {
  handle_->renew();
  // Like all times here, the start is in the file server's time.
  own_.started = utc(handle_->time());
  handle_->write(to_text(own_));
}

void OwnerLock::renew() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, Seconds(options_.heartbeat_s), [&] { return ending_; })) {
    handle_->renew();
    try {
      check();
    } catch (const Error&) {  // the next require_owned() reports the error
    }
  }
}

void OwnerLock::require_owned() {
  const std::lock_guard lock(mutex_);
  check();
}

std::string OwnerLock::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::optional<Path> OwnerLock::renamed_folder() const {
  const std::lock_guard lock(mutex_);
  const Path name = folder_->present_name();
  if (name.empty() || folder_->fate() != Folder::Fate::kRenamed) return std::nullopt;
  if (handle_->is_at(AT_FDCWD, name / file_.filename()) != 0) return std::nullopt;
  return name;
}

void OwnerLock::check() {
  if (!lost_.empty()) throw LostOwnership(lost_);
  try {
    const Folder::Fate fate = folder_->fate();
    if (fate == Folder::Fate::kRenamed)
      throw LostOwnership(
          "{}: the directory was renamed to {} while process {} used it. This process stops. Stop "
          "a process before you rename its directory.",
          options_.subject, folder_->present_name().string(), own_.process.pid);
    if (fate == Folder::Fate::kRemoved) return take_again();
    const int found = handle_->is_at(AT_FDCWD, file_);
    if (found == ENOENT || found == ESTALE) take_again();
  } catch (const LostOwnership& e) {
    lost_ = e.what();
    throw;
  }
}

// Creates the lock file again after it was removed. If another process has created it first, that
// process owns it.
void OwnerLock::take_again() {
  std::error_code ignored;  // opening the file fails then
  std::filesystem::create_directories(folder_->path(), ignored);
  auto fresh = std::make_unique<Handle>(file_, file_, O_RDWR | O_CREAT | O_EXCL);
  const int locked = fresh->error() == 0 && options_.record_locks ? fresh->lock() : 0;
  const bool other = fresh->error() == EEXIST || locked == EAGAIN || locked == EACCES;
  if (other) {
    const std::optional<LockOwner> owner = owner_of(look_at(file_).record, file_);
    throw LostOwnership(
        "{}: {} was removed while process {} used it, and {} has created it again and owns it. "
        "This process stops.",
        options_.subject, file_.string(), own_.process.pid,
        owner ? fmt::format("process {} on {}", owner->process.pid, owner->host)
              : "another process");
  }
  if (fresh->error() != 0) return;  // for example, a full disk: the next check tries again
  handle_ = std::move(fresh);
  folder_ = std::make_unique<Folder>(file_);
  try {
    write_record();
  } catch (const FileError&) {  // the record lock suffices without a record
  }
}

}  // namespace tessera
