// Safe file access: readers name the file in their errors, and writers write a temporary file and
// rename it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tessera {

using Path = std::filesystem::path;

// A system call on a file failed. `code` is its errno: it distinguishes a missing file from one
// that cannot be read now.
class FileError : public Error {
 public:
  FileError(const Path& path, std::string_view what, int code);
  int code() const { return code_; }

 private:
  int code_;
};

// Thrown if `path` is a FIFO, a socket, a device or a folder instead of a file.
class NotAFile : public Error {
  using Error::Error;
};

// Returns the contents of the file. Throws FileError with the system's reason, or NotAFile: it
// never waits for the other end of a pipe and never reads a device.
std::string read_file(const Path& path);
// Does the same for inputs that users may pass through a pipe, such as `<(command)` or /dev/stdin.
// Throws Error after `most` bytes.
std::string read_pipe_or_file(const Path& path, int64_t most);

// Writes a temporary file next to `path`, flushes it to the disk, renames it to `path` and flushes
// the directory. On failure (such as a full disk), removes the temporary file, leaves `path`
// unchanged, and throws Error.
void write_file(const Path& path, std::string_view bytes);

// A file that is written in pieces under a temporary name and appears at `path` only after
// commit(). Every writer has its own temporary file (base/temporary.h), so two writers of one path
// each write a complete file, and the last commit wins. A link at `path` is replaced, not followed.
class FileWriter {
 public:
  explicit FileWriter(Path path);
  ~FileWriter();  // without commit(): removes the temporary file
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Sets a function that is called when the disk is full; if it returns true, the write is retried.
  void on_full_disk(std::function<bool()> make_space) { make_space_ = std::move(make_space); }
  void write(const void* data, size_t bytes);  // buffered
  int64_t written() const { return written_; }
  // Flushes all bytes to the disk, under the temporary name. A full disk causes an error here, so
  // that several files can be prepared before the first of them is renamed.
  void prepare();
  void commit();  // prepares, renames, and flushes the directory

 private:
  void flush();
  Path path_, part_;
  int fd_ = -1;
  int64_t written_ = 0;
  std::string buffer_;
  std::function<bool()> make_space_;
};

// A file mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const Path& path() const { return path_; }

 private:
  Path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Throws Error if the bytes of the file `source` are a Git LFS pointer. The message states how to
// get the file.
inline void refuse_lfs_pointer(std::string_view bytes, std::string_view source) {
  if (bytes.starts_with("version https://git-lfs"))
    throw Error(
        "{}: is a Git LFS pointer, not the file itself: the repository was cloned without its "
        "large files. Run   git lfs pull   in that folder, or download the file.",
        source);
}

}  // namespace tessera
