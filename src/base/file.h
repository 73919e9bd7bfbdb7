// Files, so that nothing is ever lost: a reader names the file in its error, a writer writes beside
// and renames.
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

// A system call on a file failed. `code` is its errno: it tells a file that is missing from one
// that cannot be read now.
class FileError : public Error {
 public:
  FileError(const Path& path, std::string_view what, int code);
  int code() const { return code_; }

 private:
  int code_;
};

// The whole file. Throws Error with the system's reason.
std::string read_file(const Path& path);

// Writes `path`.part, flushes it to the disk and renames it over `path`; flushes the folder.
// On failure removes the part file, leaves `path` as it was, and throws Error (full disk included).
void write_file(const Path& path, std::string_view bytes);

// A file that is written piece by piece beside its place, and stands there only after commit().
class FileWriter {
 public:
  explicit FileWriter(Path path);
  ~FileWriter();  // without commit(): removes the part file
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Called where the disk is full; if it returns true, the write is tried again.
  void on_full_disk(std::function<bool()> make_space) { make_space_ = std::move(make_space); }
  void write(const void* data, size_t bytes);  // buffered
  int64_t written() const { return written_; }
  // All bytes reach the disk, still under the part's name: what can fail for want of room fails
  // here, so that several files can be prepared before the first of them is renamed.
  void prepare();
  void commit();  // prepare, rename, fsync of the folder

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

}  // namespace tessera
