// Positioned reads (pread) of a dataset's file, with errors that name the byte. A read of a mapped
// file that was truncated would raise SIGBUS instead.
#include "data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera::data {

DataFile::DataFile(const Path& path) : path_(path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw Error("{}: cannot be opened: {}", path.string(), std::strerror(errno));
  struct stat s {};
  const bool known = ::fstat(fd_, &s) == 0;
  const int reason = errno;
  if (!known || !S_ISREG(s.st_mode)) {
    ::close(fd_);
    if (!known) throw Error("{}: cannot be read: {}", path.string(), std::strerror(reason));
    throw Error("{}: is {}, expected a regular file", path.string(),
                S_ISDIR(s.st_mode) ? "a folder" : "a device or a pipe");
  }
  // Size and modification time identify the content; changed() compares them later.
  opened_ = {s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
}

DataFile::~DataFile() { ::close(fd_); }

void DataFile::read(int64_t at, std::span<std::byte> out) const {
  for (int64_t done = 0; done < std::ssize(out);) {
    const int64_t place = at + done;
    const ssize_t n = ::pread(fd_, out.data() + done, out.size() - done, place);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw Error("{}: byte {} cannot be read: {}", path_.string(), place, std::strerror(errno));
    if (n == 0)
      throw Error(
          "{}: byte {} is past its end: it had {} bytes when it was opened and has {} now. It was "
          "truncated while in use. Restore it and run the same command to resume",
          path_.string(), place, opened_.size, state().size);
    done += n;
  }
}

DataFile::State DataFile::state() const {
  struct stat s {};
  if (::fstat(fd_, &s) != 0)
    throw Error("{}: cannot be read any more: {}", path_.string(), std::strerror(errno));
  return {s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
}

bool DataFile::changed() const { return state() != opened_; }
void DataFile::accept_change() { opened_ = state(); }

}  // namespace tessera::data
