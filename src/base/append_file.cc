// An append-only file with a bounded queue. Every record first enters the queue and leaves it only
// after a complete write, so a failure never reorders records, and a later call retries the rest.
#include "base/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera {
namespace {

constexpr size_t kMostLate = size_t{16} << 20;

bool is_removed(int fd) {
  // A log rotation or a clean-up may unlink the file while it is open. Writes would then succeed
  // into a file without a name, so each call checks the link count.
  struct stat s {};
  return ::fstat(fd, &s) != 0 || s.st_nlink == 0;
}

}  // namespace

AppendFile::AppendFile(Path path, std::string head, std::function<bool()> owned)
    : path_(std::move(path)), head_(std::move(head)), owned_(std::move(owned)) {
  write_late();
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append(std::string_view record) {
  const std::lock_guard lock(mutex_);
  late_.emplace_back(record);
  late_bytes_ += record.size();
  write_late();
  // One record is always kept, even if it exceeds the limit: the next call may be able to write it.
  while (late_bytes_ > kMostLate && late_.size() > 1) {
    late_bytes_ -= late_.front().size();
    late_.pop_front();
    ++dropped_;
  }
}

void AppendFile::sync() {
  const std::lock_guard lock(mutex_);
  write_late();
  if (fd_ >= 0 && !failing_ && ::fdatasync(fd_) != 0)
    failed(fmt::format("cannot be flushed to the disk: {}", std::strerror(errno)));
}

std::optional<std::string> AppendFile::take_report() {
  const std::lock_guard lock(mutex_);
  return std::exchange(report_, std::nullopt);
}

void AppendFile::failed(const std::string& what) {
  if (failing_) return;
  failing_ = true;
  report_ = fmt::format("{}: {}. New lines are kept in memory and written once that is possible.",
                        path_.string(), what);
}

void AppendFile::write_late() {
  try {
    if (fd_ < 0 || is_removed(fd_)) reopen();
    while (!late_.empty()) {
      write_whole(late_.front());
      late_bytes_ -= late_.front().size();
      late_.pop_front();
    }
  } catch (const Error& e) {
    return failed(e.what());
  }
  if (!failing_) return;
  failing_ = false;
  report_ = fmt::format(
      "{}: writing continues {}", path_.string(),
      dropped_ == 0 ? std::string("without a gap") : fmt::format("after {} lost lines", dropped_));
  dropped_ = 0;
}

void AppendFile::reopen() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  std::error_code ignored;  // open() below reports why
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), ignored);
  // With O_APPEND, seeking to the end and writing are one atomic operation, so several processes
  // may share the file. Without O_NONBLOCK, opening a FIFO that has no reader would block.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  fd_ = ::open(path_.c_str(), kFlags, 0644);
  if (fd_ < 0) throw Error("cannot be opened for writing: {}", std::strerror(errno));
  try {
    struct stat s {};
    const bool known = ::fstat(fd_, &s) == 0;
    if (known && !S_ISREG(s.st_mode)) throw Error("is not a regular file: move it away");
    // Checked after opening: a new owner has the lock before it creates the file.
    if (owned_ && !owned_()) throw Error("belongs to another process now");
    // The head must precede all records.
    if (known && s.st_size == 0) write_whole(head_);
  } catch (const Error&) {
    ::close(std::exchange(fd_, -1));
    throw;
  }
}

void AppendFile::write_whole(std::string_view record) {
  // If the record cannot be written completely, the file is truncated to its previous length, so a
  // record is in the file completely or not at all.
  struct stat before {};
  const bool known = ::fstat(fd_, &before) == 0;
  for (size_t at = 0; at < record.size();) {
    const ssize_t n = ::write(fd_, record.data() + at, record.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n >= 0) {
      at += static_cast<size_t>(n);
      continue;
    }
    const int why = errno;
    if (known && ::ftruncate(fd_, before.st_size) != 0)
      throw Error("cannot be written, and now ends in an incomplete line: {}", std::strerror(why));
    throw Error("cannot be written: {}", std::strerror(why));
  }
}

}  // namespace tessera
