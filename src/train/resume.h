// Going on from a checkpoint under a run file that may have changed since it was written.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/tree.h"

namespace tessera {

// One key whose value differs from the checkpoint's.
struct ResumeChange {
  std::string path, before, after;
  bool other_run = false;  // makes it another run: the model, the data or their order, the seed
};

// Both are whole configurations with everything resolved (to_tree of a RunConfig); `saved` is the
// checkpoint's. Keys that say nothing about the run itself (where to stop, how to resume, debugging
// output) are left out, and so is all of a checkpoint without a configuration (an imported one).
std::vector<ResumeChange> changes_since(const Tree& saved, const Tree& now);

// "schedule.steps 1000 -> 2000"
std::string to_string(const ResumeChange& change);

// Throws Error where a change makes it another run and `allowed` (checkpoint.allow_changes) is
// false; names all of them and what to do. `checkpoint` is its path, for the message.
void refuse_another_run(std::span<const ResumeChange> changes, bool allowed,
                        const std::string& checkpoint);

}  // namespace tessera
