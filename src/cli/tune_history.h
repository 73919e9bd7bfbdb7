// The trials of `tessera tune` in a file, so that a tuning goes on where it was stopped.
#pragma once

#include "base/file.h"
#include "base/tree.h"
#include "plan/tune.h"

namespace tessera {

struct PastTrial {
  size_t point = 0;
  TrialResult result;
};

// {"trials": [{"point": {"batch.micro": "2", …}, "outcome": "ran", "seconds": 0.41}, …]}
Tree as_tree(const Space& space, const std::vector<PastTrial>& trials);
// Written beside and renamed.
void write_history(const Path& path, const Space& space, const std::vector<PastTrial>& trials);
// Those of the file that are points of the space; none where there is no file. Throws Error for a
// file that is not one of these.
std::vector<PastTrial> read_history(const Path& path, const Space& space);

}  // namespace tessera
