// A run directory that is read again and again while the run writes it.
#pragma once

#include <string>

#include "report/run_data.h"

namespace tessera::report {

class RunFollower {
 public:
  // Throws Error if `directory` is not a run directory.
  explicit RunFollower(const Path& directory);

  // Reads what was added since the last call: only the new lines of metrics.jsonl, however long the
  // file is. A file that was shortened or replaced, as when a run resumes, is read from its start.
  // Throws Error if the directory is not a run directory any more.
  void update();
  const RunData& run() const { return run_; }

 private:
  void read_all();
  bool add_new_metrics();

  Path directory_;
  RunData run_;
  size_t read_ = 0;         // bytes of metrics.jsonl
  std::string last_bytes_;  // those before read_: a file that has others was replaced
  uintmax_t log_bytes_ = 0;
};

}  // namespace tessera::report
