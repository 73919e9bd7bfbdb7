// What stands in place of a large file where a repository was cloned without Git LFS.
#pragma once

#include <string_view>

namespace tessera {

inline bool is_lfs_pointer(std::string_view bytes) {
  return bytes.starts_with("version https://git-lfs");
}

}  // namespace tessera
