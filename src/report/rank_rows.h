// Lines about what each rank of a run under `tessera launch` is doing, from ranks.json in the run
// directory.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace tessera::report {

// Returns one line per group of ranks with the same activity, the longest activity first:
//   "ranks 0-2 wait 12 s at step 7: backward.layer of layer 3: all_reduce of … over data"
// Empty if there is no such file, or it cannot be read.
std::vector<std::string> rank_lines(const Path& run_directory);

}  // namespace tessera::report
