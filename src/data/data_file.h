// A file of a data set, read by pread: a file that is cut, changed or lost while it is in use gives
// an Error, never a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"

namespace tessera {

class DataFile {
 public:
  // Throws Error if there is no such file, or if it is not a regular file.
  explicit DataFile(const Path& path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const Path& path() const { return path_; }
  int64_t size() const { return opened_.size; }  // when it was opened

  // Bytes [at, at + out.size()). Throws Error that names the file and the byte where it ends too
  // early or cannot be read.
  void read(int64_t at, std::span<std::byte> out) const;

  // Whether its size or its time of modification are no longer those of the opening, or of the last
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

}  // namespace tessera
