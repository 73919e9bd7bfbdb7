// A file of a dataset, which is read with pread: if it is truncated, changed or removed while in
// use, the result is an Error and never a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"

namespace tessera::data {

class DataFile {
 public:
  // Throws Error if there is no such file, or if it is not a regular file.
  explicit DataFile(const Path& path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const Path& path() const { return path_; }
  int64_t size() const { return opened_.size; }  // size in bytes when it was opened

  // Reads bytes [at, at + out.size()). Throws Error that names the file and the byte if it ends too
  // early or cannot be read.
  void read(int64_t at, std::span<std::byte> out) const;

  // Returns true if its size or modification time has changed since the opening or the last
  // accept_change().
  bool changed() const;
  void accept_change();

 private:
  struct State {
    int64_t size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const State&) const = default;
  };
  State state() const;

  Path path_;
  int fd_ = -1;
  State opened_;
};

}  // namespace tessera::data
