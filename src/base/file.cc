#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/mapped_fault.h"

namespace tessera {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;  // one system call a MiB

std::string reason() { return std::strerror(errno); }

class Descriptor {
 public:
  Descriptor(const Path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {
    if (fd_ < 0) throw Error("{}: cannot be opened: {}", path.string(), reason());
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct stat status_of(int fd, const Path& path) {
  struct stat s {};
  if (::fstat(fd, &s) != 0) throw Error("{}: cannot be read: {}", path.string(), reason());
  if (S_ISDIR(s.st_mode)) throw Error("{}: is a folder, wanted a file", path.string());
  return s;
}

void write_all(int fd, const char* data, size_t bytes, const Path& path) {
  while (bytes > 0) {
    const ssize_t n = ::write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error("{}: cannot be written: {}", path.string(), reason());
    data += n;
    bytes -= static_cast<size_t>(n);
  }
}

}  // namespace

std::string read_file(const Path& path) {
  const Descriptor file(path, O_RDONLY);
  const struct stat status = status_of(file.get(), path);
  std::string text;
  text.resize(static_cast<size_t>(std::max<off_t>(status.st_size, 0)) + 1);  // + 1: sees the end
  size_t used = 0;
  while (true) {
    const ssize_t n = ::read(file.get(), text.data() + used, text.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error("{}: cannot be read: {}", path.string(), reason());
    if (n == 0) break;
    used += static_cast<size_t>(n);
    if (used == text.size()) text.resize(text.size() + kBuffer);  // a pipe, or a file that grows
  }
  text.resize(used);
  return text;
}

void write_file(const Path& path, std::string_view bytes) {
  FileWriter writer(path);
  writer.write(bytes.data(), bytes.size());
  writer.commit();
}

FileWriter::FileWriter(Path path) : path_(std::move(path)), part_(path_) {
  part_ += ".part";
  fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw Error("{}: cannot be created: {}", part_.string(), reason());
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
    write_all(fd_, static_cast<const char*>(data), bytes, part_);
  else
    buffer_.append(static_cast<const char*>(data), bytes);
}

void FileWriter::flush() {
  write_all(fd_, buffer_.data(), buffer_.size(), part_);
  buffer_.clear();
}

void FileWriter::prepare() {
  CHECK(fd_ >= 0, "{} is prepared after commit()", path_.string());
  flush();
  if (::fsync(fd_) != 0) throw Error("{}: cannot be flushed: {}", part_.string(), reason());
}

void FileWriter::commit() {
  prepare();
  if (::rename(part_.c_str(), path_.c_str()) != 0)
    throw Error("{}: cannot be put in its place: {}", path_.string(), reason());
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) throw Error("{}: cannot be closed: {}", path_.string(), reason());
  const Path folder = path_.has_parent_path() ? path_.parent_path() : Path(".");
  const Descriptor directory(folder, O_RDONLY | O_DIRECTORY);
  if (::fsync(directory.get()) != 0)
    throw Error("{}: cannot be flushed: {}", folder.string(), reason());
}

MappedFile::MappedFile(const Path& path) : path_(path) {
  const Descriptor file(path, O_RDONLY);
  size_ = static_cast<size_t>(status_of(file.get(), path).st_size);
  if (size_ == 0) return;  // nothing to map
  void* at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) throw Error("{}: cannot be mapped: {}", path.string(), reason());
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
