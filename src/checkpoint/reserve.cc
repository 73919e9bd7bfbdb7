#include "checkpoint/reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "reserve-", kSuffix = ".part";

// File systems without fallocate (NFS 3) get the bytes written.
int write_zeros(int fd, int64_t bytes) {
  const std::vector<char> zeros(size_t{1} << 20);
  while (bytes > 0) {
    const auto most = std::min<int64_t>(bytes, std::ssize(zeros));
    const ssize_t n = ::write(fd, zeros.data(), static_cast<size_t>(most));
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

// Returns true for a file that Reserve left: by its name, and by the zeros at its beginning.
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

Reserve::Reserve(Path folder, int rank, int64_t bytes)
    : folder_(std::move(folder)),
      file_(folder_ / fmt::format("{}{}{}", kPrefix, rank, kSuffix)),
      bytes_(bytes) {}

Reserve::~Reserve() {
  release();
  if (made_folder_) ::rmdir(folder_.c_str());  // only if it is empty, and not a link or a file
}

std::string Reserve::take() {
  if (held_ || bytes_ <= 0) return "";
  std::error_code error;
  made_folder_ |= fs::create_directories(folder_, error);
  const int fd = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return std::strerror(errno);
  const int failed = allocate(fd, bytes_);
  ::close(fd);
  if (failed != 0) {
    ::unlink(file_.c_str());
    return std::strerror(failed);
  }
  held_ = true;
  return "";
}

bool Reserve::release() { return std::exchange(held_, false) && ::unlink(file_.c_str()) == 0; }

void remove_old_reserves(const Path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_reserve(entry)) ::unlink(entry.path().c_str());
  }
}

}  // namespace tessera
