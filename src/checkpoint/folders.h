// The checkpoints of a run: which there are, which is the latest whole one, which may go.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace tessera {

struct FoundCheckpoint {
  Path path;
  int64_t step = 0;
  int64_t bytes = 0;   // of all its files
  std::string broken;  // why it cannot be read; empty: index and sizes are whole
};

// All entries <step> and <step>.part of a checkpoints folder, by step; unfinished ones come as
// broken. A folder that does not exist has none.
std::vector<FoundCheckpoint> list_checkpoints(const Path& checkpoints_dir);

struct LatestCheckpoint {
  std::optional<FoundCheckpoint> found;
  std::vector<FoundCheckpoint> skipped;  // newer than `found` and broken, with their reasons
};

// The whole checkpoint of the highest step.
LatestCheckpoint find_latest(const Path& checkpoints_dir);

// What a CHECKPOINT argument means: a checkpoint folder itself, a Hugging Face folder, a
// checkpoints/ folder or a run directory (both: its latest whole one). Throws Error that says what
// was found instead.
Path resolve_checkpoint(const Path& argument);

struct KeepRule {
  int64_t keep = 3;               // newest ones kept; 0: all
  int64_t keep_every_steps = 0;   // and those whose step is a multiple of this; 0: none
  std::vector<int64_t> at_steps;  // and these
  std::function<bool(int64_t step)> also = {};  // and those of which this says so
};

// Removes the whole checkpoints that no rule keeps, and what unfinished saves left behind. The
// newest whole one always stays; broken ones are left for a person to look at. Each goes by a
// rename first, so that none is ever half there. Returns what was removed.
std::vector<Path> prune(const Path& checkpoints_dir, const KeepRule& rule);

}  // namespace tessera
