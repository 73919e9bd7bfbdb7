// An exclusive lock file: a kernel record lock where the file system has one, and a record of the
// owner that the owner keeps up to date.
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
#include "base/tree.h"

namespace tessera {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::string_view kMark = "{\"tessera_lock\":";
constexpr auto kShortly = std::chrono::milliseconds(20);
constexpr int kShortWaits = 3000;  // a minute in all: a killed process frees its memory first
constexpr double kOldClaim_s = 10;

int64_t number(const Tree& t, const char* key) {
  const Tree* member = t.find(key);
  const auto* n = member ? std::get_if<int64_t>(&member->value) : nullptr;
  return n ? *n : 0;
}

std::string text(const Tree& t, const char* key) {
  const Tree* member = t.find(key);
  const std::string* s = member ? member->as_string() : nullptr;
  return s ? *s : "";
}

std::string to_text(const LockOwner& o) {
  Tree t;
  t.set("tessera_lock", Tree(int64_t{1}));
  t.set("host", Tree(o.host));
  t.set("pid", Tree(o.process.pid));
  t.set("started", Tree(o.started));
  t.set("boot", Tree(int64_t{o.boot}));
  t.set("machine", Tree(int64_t{o.process.machine}));
  t.set("process_start", Tree(o.process.start));
  t.set("token", Tree(o.token));
  return to_json(t) + "\n";
}

// Returns nothing if a crash left no complete record.
std::optional<LockOwner> owner_of(const std::string& record, const Path& file) {
  try {
    const Tree t = parse_json(record, file.string());
    if (t.find("tessera_lock") == nullptr) return std::nullopt;
    return LockOwner{
        text(t, "host"),
        {static_cast<uint32_t>(number(t, "machine")), number(t, "pid"), number(t, "process_start")},
        static_cast<uint32_t>(number(t, "boot")),
        text(t, "started"),
        text(t, "token")};
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string utc(std::time_t seconds) {
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  text[std::strftime(text.data(), text.size() - 1, "%Y-%m-%d %H:%M:%S UTC", &parts)] = '\0';
  return text.data();
}

bool may_be_ours(const std::string& record) {
  const bool empty = std::all_of(record.begin(), record.end(), [](char c) { return c == '\0'; });
  const size_t n = std::min(record.size(), kMark.size());
  return empty || std::string_view(record).substr(0, n) == kMark.substr(0, n);
}

}  // namespace

// The open lock file.
class OwnerLock::Handle {
 public:
  // `file`: the lock's name; `opened`: the same, or the name of a new one.
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

  int error() const { return error_; }  // of opening; 0: it is open

  // Returns 0, or the errno of the failure.
  int lock() const {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    return ::fcntl(fd_, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
  }

  bool has_the_name() const {
    struct stat own {
    }, named{};
    return ::fstat(fd_, &own) == 0 && ::lstat(file_.c_str(), &named) == 0 &&
           own.st_ino == named.st_ino && own.st_dev == named.st_dev;
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
    if (::ftruncate(fd_, static_cast<off_t>(record.size())) != 0 || ::fsync(fd_) != 0)
      throw FileError(file_, "cannot be written", errno);
  }

  // Uses the clock of the host that stores the file.
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

namespace {

// The file as a new open() shows it: a network file system updates its cached attributes then.
struct Look {
  bool there = false;
  std::string record;
  double time_s = 0;  // of the last change
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

// Returns the time of the host that stores the file, taken from a new file there.
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
  for (int tries = 0;; ++tries) {
    if (tries == kShortWaits) refuse(owner_of(look_at(file_).record, file_));
    const Step step = options_.record_locks ? try_record_lock() : try_exclusive_file();
    if (step == Step::kTaken) break;
    std::this_thread::sleep_for(kShortly);
  }
  heartbeat_ = std::thread([this] { renew(); });
}

OwnerLock::~OwnerLock() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  heartbeat_.join();
  // A process that opened this file before its removal detects that with has_the_name().
  if (handle_->has_the_name()) ::unlink(file_.c_str());
}

// Opens the file, or creates it. Returns whether this call created it.
bool OwnerLock::open_file() {
  handle_ = std::make_unique<Handle>(file_, file_, O_RDWR);
  if (handle_->error() != ENOENT) {
    if (handle_->error() != 0) throw FileError(file_, "cannot be opened", handle_->error());
    return false;
  }
  handle_ = std::make_unique<Handle>(file_, file_, O_RDWR | O_CREAT | O_EXCL);
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
    // A new owner that has not written its record yet; one that was killed and has not ended; one
    // that has just released the lock.
    const bool passes = (!owner && may_be_ours(record)) || (owner && is_exiting(owner->process)) ||
                        !handle_->has_the_name();
    if (passes) return Step::kAgain;
    // After a crash of the owner's host, a file server keeps the lock for a while.
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
  const Look before = look_at(file_);
  if (!before.there) return Step::kAgain;
  require_lock_file(before.record);
  const std::optional<LockOwner> owner = owner_of(before.record, file_);
  const Running now = owner ? running(owner->process) : Running::kUnknown;
  if (now == Running::kYes && is_exiting(owner->process)) return Step::kAgain;
  if (now == Running::kYes) refuse(owner);
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
    // A take-over lasts milliseconds: an old claim is of a process that was killed in one.
    const Look old = look_at(claim.name);
    if (old.there && time_there_s(file_) - old.time_s > kOldClaim_s) ::unlink(claim.name.c_str());
    return Step::kAgain;
  }
  if (look_at(file_).record != record) return Step::kAgain;
  const Path fresh = temporary_name(file_);
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
  throw Error("{}: is not a lock file of tessera. Move it away.", file_.string());
}

// Waits until the owner has not renewed the file for `stale_s`. Returns false if the file was
// removed. Throws Error if the owner renews it.
bool OwnerLock::has_ended(const LockOwner& owner) {
  const Look first = look_at(file_);
  const double age = std::clamp(time_there_s(file_) - first.time_s, 0.0, options_.stale_s);
  const double poll_s = std::min(0.5, options_.heartbeat_s / 4);
  double left = options_.stale_s - age;
  if (left > 0 && options_.say)
    options_.say(fmt::format(
        "{}: its last owner, process {} on {}, did not release it. Waiting at most {:.0f} s for a "
        "sign that it still runs.",
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
  own_.started = utc(handle_->time());
  handle_->write(to_text(own_));
}

void OwnerLock::renew() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, Seconds(options_.heartbeat_s), [&] { return ending_; }))
    handle_->renew();
}

}  // namespace tessera
