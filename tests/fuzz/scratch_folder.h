// A folder in memory for readers that want files; one a process, removed at its end.
#pragma once

#include <cstdio>
#include <string_view>

#include "tests/checkpoint/temporary_folder.h"

namespace tessera {

inline const Path& scratch_folder() {
  static const TemporaryFolder folder(TemporaryFolder::quick());
  return folder.path();
}

// Without flushing: millions of these are written.
inline void put(const Path& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  CHECK(file, "{} cannot be written", path.string());
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

}  // namespace tessera
