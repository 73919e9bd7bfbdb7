// The folder of a run that is being started, which may be refused before it has begun.
#pragma once

#include <string_view>
#include <vector>

#include "base/file.h"

namespace tessera {

// A start that fails leaves no trace where it made the folder and its run has not begun, that is
// where nothing but log.txt stands in it. Anything else stays as it is, and the log says why the
// start or the run failed. On every rank, made before any of them makes the folder.
class RunFolder {
 public:
  explicit RunFolder(const Path& folder);

  // After train() has thrown. `writes_log`: of the ranks one, so that the log says it once. What
  // cannot be removed or written is left: there is an error to be told already.
  void failed(std::string_view error, bool writes_log) const noexcept;

 private:
  Path folder_;
  std::vector<Path> absent_;  // it and the folders above it that were not there, the inmost first
};

}  // namespace tessera
