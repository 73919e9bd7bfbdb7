// What stands in place of a large file where a repository was cloned without Git LFS.
#pragma once

#include <string_view>

#include "base/error.h"

namespace tessera {

// Throws Error, with what to do, if the bytes of the file `source` are such a pointer.
inline void refuse_lfs_pointer(std::string_view bytes, std::string_view source) {
  if (bytes.starts_with("version https://git-lfs"))
    throw Error(
        "{}: is a Git LFS pointer, not the file itself: it was cloned without its large files. "
        "Fetch them with   git lfs pull   in that folder, or download the file.",
        source);
}

}  // namespace tessera
