// A folder in memory for readers of files: one per process, removed when the process ends.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include "tests/checkpoint/temporary_folder.h"

namespace tessera {

inline const Path& scratch_folder() {
  static const checkpoint::TemporaryFolder folder(checkpoint::TemporaryFolder::quick());
  return folder.path();
}

// Replaces the content of the file. Its pages are kept, and nothing is flushed: a fuzzer calls this
// millions of times.
inline void put(const Path& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const bool written =
      file >= 0 &&
      ::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
      ::ftruncate(file, static_cast<off_t>(bytes.size())) == 0;
  if (file >= 0) ::close(file);
  CHECK(written, "{} cannot be written", path.string());
}

}  // namespace tessera
