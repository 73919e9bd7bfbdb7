// Reserves disk space by a file of allocated blocks. fallocate() allocates blocks without writing
// them, so a reserve of any size costs no time if the file system supports it.
#include "checkpoint/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "reserve-", kSuffix = ".part";

// Writes zeros, for file systems without fallocate (NFS 3). fsync reports a full disk that the
// server only notices when it writes.
int write_zeros(int fd, int64_t bytes) {
  const std::vector<char> zeros(size_t{1} << 20);
  while (bytes > 0) {
    const auto most = std::min<int64_t>(bytes, std::ssize(zeros));
    const ssize_t n = ::write(fd, zeros.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes -= n;
  }
  return ::fsync(fd) == 0 ? 0 : errno;
}

int allocate(int fd, int64_t bytes) {
  if (::fallocate(fd, 0, 0, bytes) == 0) return 0;
  return errno == EOPNOTSUPP ? write_zeros(fd, bytes) : errno;
}

// Returns true for a file that a Reserve left, which is recognized by its name and by zeros at its
// start. A user's file of such a name is not removed.
bool is_reserve(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  std::error_code error;
  if (!fs::is_regular_file(entry.symlink_status(error))) return false;
  const int fd = ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  std::array<char, 4096> first;
  const ssize_t n = ::read(fd, first.data(), first.size());
  ::close(fd);
  return n >= 0 && std::all_of(first.begin(), first.begin() + n, [](char c) { return c == 0; });
}

}  // namespace

Reserve::Reserve(Path folder, int64_t rank, int64_t bytes)
    : folder_(std::move(folder)),
      file_(folder_ / fmt::format("{}{}{}", kPrefix, rank, kSuffix)),
      bytes_(bytes) {}

Reserve::~Reserve() {
  release();
  if (made_folder_) ::rmdir(folder_.c_str());  // fails if it is not empty, or a link or a file
}

std::string Reserve::take() {
  if (held_ || bytes_ <= 0) return "";
  std::error_code error;
  made_folder_ |= fs::create_directories(folder_, error);
  // O_EXCL: an existing file must not be resized or removed.
  const int fd = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return std::strerror(errno);
  const int failed = allocate(fd, bytes_);
  struct stat s {};
  if (::fstat(fd, &s) == 0) device_ = s.st_dev, inode_ = s.st_ino;
  ::close(fd);
  if (failed != 0) {
    ::unlink(file_.c_str());
    return std::strerror(failed) + std::string(failed == EFBIG ? " (ulimit -f)" : "");
  }
  held_ = true;
  return "";
}

bool Reserve::release() {
  if (!std::exchange(held_, false)) return false;
  struct stat s {};
  const bool own = ::lstat(file_.c_str(), &s) == 0 && s.st_dev == device_ && s.st_ino == inode_;
  return own && ::unlink(file_.c_str()) == 0;
}

void remove_old_reserves(const Path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_reserve(entry)) ::unlink(entry.path().c_str());
  }
}

}  // namespace tessera::checkpoint
