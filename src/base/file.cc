// Reading with errors that name the file, atomic replacement by rename, and mapped files.
//
// Because of the order in commit(), a write survives a crash: the data is flushed under the
// temporary name, then the file is renamed, then the directory is flushed. Without the first flush,
// a file system may write the rename before the data, and a crash would leave an empty file under
// the final name. Without the last one, a crash may undo the rename after commit() has returned.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "base/mapped_fault.h"
#include "base/temporary.h"

namespace tessera {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;  // one system call per MiB

// An open file descriptor. Callers pass O_NONBLOCK if a FIFO is not allowed: opening a FIFO then
// returns at once, without waiting for a writer, and fstat() shows that it is not a file.
class Descriptor {
 public:
  Descriptor(const Path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {
    // ENXIO: a socket, or a device without a driver.
    if (fd_ < 0 && errno == ENXIO)
      throw NotAFile("{}: is a socket or a device, expected a file", path.string());
    if (fd_ < 0) throw FileError(path, "cannot be opened", errno);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "FIFO (a named pipe)";
  if (S_ISSOCK(mode)) return "socket";
  return "device";
}

struct stat status_of(int fd, const Path& path) {
  struct stat s {};
  if (::fstat(fd, &s) != 0) throw FileError(path, "cannot be read", errno);
  return s;
}

void require_file(const struct stat& s, const Path& path) {
  if (S_ISREG(s.st_mode)) return;
  throw NotAFile("{}: is a {}, expected a file", path.string(), kind_of(s.st_mode));
}

// Reads to the end. `hint` is the expected size in bytes. Throws Error after `most` bytes.
std::string read_all(int fd, size_t hint, int64_t most, const Path& path) {
  std::string text(hint + 1, '\0');  // + 1: sees the end
  size_t used = 0;
  while (true) {
    const ssize_t n = ::read(fd, text.data() + used, text.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FileError(path, "cannot be read", errno);
    if (n == 0) break;
    used += static_cast<size_t>(n);
    if (static_cast<int64_t>(used) > most)
      throw Error("{}: exceeds the limit of {} bytes", path.string(), most);
    if (used == text.size()) text.resize(text.size() + kBuffer);  // a pipe, or a file that grows
  }
  text.resize(used);
  return text;
}

// `make_space` is called when the disk is full; if it returns true, the write is retried.
void write_all(int fd, const char* data, size_t bytes, const Path& path,
               const std::function<bool()>& make_space) {
  while (bytes > 0) {
    const ssize_t n = ::write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    const int code = n < 0 ? errno : 0;
    // ENOSPC: the disk is full. EDQUOT: the user's quota is exhausted.
    if ((code == ENOSPC || code == EDQUOT) && make_space && make_space()) continue;
    if (n < 0) throw FileError(path, "cannot be written", code);
    data += n;
    bytes -= static_cast<size_t>(n);
  }
}

}  // namespace

FileError::FileError(const Path& path, std::string_view what, int code)
    : Error("{}: {}: {}", path.string(), what, std::strerror(code)), code_(code) {}

std::string read_file(const Path& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);
  const struct stat status = status_of(file.get(), path);
  require_file(status, path);
  return read_all(file.get(), static_cast<size_t>(status.st_size),
                  std::numeric_limits<int64_t>::max(), path);
}

std::string read_pipe_or_file(const Path& path, int64_t most) {
  const Descriptor file(path, O_RDONLY);
  const struct stat status = status_of(file.get(), path);
  if (!S_ISFIFO(status.st_mode)) require_file(status, path);
  return read_all(file.get(), kBuffer, most, path);
}

void write_file(const Path& path, std::string_view bytes) {
  FileWriter writer(path);
  writer.write(bytes.data(), bytes.size());
  writer.commit();
}

FileWriter::FileWriter(Path path) : path_(std::move(path)) {
  // Checked before anything is written: commit() could not rename a file over a folder, and it must
  // not replace a device such as /dev/null.
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0 && !S_ISLNK(there.st_mode)) require_file(there, path_);
  // O_EXCL and O_NOFOLLOW: the file is new, and no link that another user placed there is followed.
  // The name is random, so a collision is unlikely; after one, the loop tries another name.
  do {
    part_ = temporary_name(path_);
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) throw FileError(path_, "cannot be created", errno);
  remove_abandoned(path_, part_);
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(part_.c_str());
}

void FileWriter::write(const void* data, size_t bytes) {
  CHECK(fd_ >= 0, "{} is written after commit()", path_.string());
  written_ += static_cast<int64_t>(bytes);
  if (buffer_.size() + bytes > kBuffer) flush();
  if (bytes >= kBuffer)
    write_all(fd_, static_cast<const char*>(data), bytes, path_, make_space_);
  else
    buffer_.append(static_cast<const char*>(data), bytes);
}

void FileWriter::flush() {
  write_all(fd_, buffer_.data(), buffer_.size(), path_, make_space_);
  buffer_.clear();
}

void FileWriter::prepare() {
  CHECK(fd_ >= 0, "{} is prepared after commit()", path_.string());
  flush();
  if (::fsync(fd_) != 0) throw FileError(path_, "cannot be flushed", errno);
}

void FileWriter::commit() {
  prepare();
  if (::rename(part_.c_str(), path_.c_str()) != 0)
    throw FileError(path_, "the temporary file cannot be renamed to it", errno);
  // NFS may report a failed write only at close(), after which the descriptor is invalid, whatever
  // close() returned.
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) throw FileError(path_, "cannot be closed", errno);
  const Path folder = path_.has_parent_path() ? path_.parent_path() : Path(".");
  const Descriptor directory(folder, O_RDONLY | O_DIRECTORY);
  if (::fsync(directory.get()) != 0) throw FileError(folder, "cannot be flushed", errno);
}

MappedFile::MappedFile(const Path& path) : path_(path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);
  const struct stat status = status_of(file.get(), path);
  require_file(status, path);
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;  // nothing to map
  // MAP_SHARED maps the pages of the page cache, so all ranks of a host share them.
  void* at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) throw FileError(path, "cannot be mapped", errno);
  data_ = static_cast<const std::byte*>(at);
  watch_mapping(data_, size_, path.string());
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  forget_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

}  // namespace tessera
