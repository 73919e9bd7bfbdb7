// Lists the checkpoints of a run, finds the latest intact one, and removes old ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace tessera::checkpoint {

struct FoundCheckpoint {
  Path path;
  int64_t step = 0;
  int64_t bytes = 0;   // size of all its files
  std::string broken;  // why it cannot be read; empty: index and file sizes are intact
};

// Returns all entries of a checkpoints folder whose names begin with a step, sorted by step:
// checkpoints, unfinished saves, and those renamed to <step>.damaged. The latter two are listed as
// broken, and so is an entry that cannot be read. Returns none if the folder does not exist.
std::vector<FoundCheckpoint> list_checkpoints(const Path& checkpoints_dir);

// The entries of a checkpoints folder, classified by their names.
struct CheckpointNames {
  struct Entry {
    int64_t step = 0;
    Path path;
  };
  std::vector<Entry> finished;    // <step>/, in ascending order
  std::vector<Entry> unfinished;  // left by a killed save, or in progress in another process
  std::vector<Entry> damaged;     // <step>.damaged: found damaged by an earlier start
};
// Returns the entries of a checkpoints folder. A folder <step>.part counts as an unfinished save of
// version 0.1 only if all its files are those of a save. Throws FileError if the folder cannot be
// read.
CheckpointNames names_in(const Path& checkpoints_dir);

struct LatestCheckpoint {
  std::optional<FoundCheckpoint> found;
  std::vector<FoundCheckpoint> skipped;  // newer than `found` and damaged, with their reasons
};

// Returns the checkpoint with the highest step whose index and file sizes are intact. Throws
// FileError if a newer one cannot be read.
LatestCheckpoint find_latest(const Path& checkpoints_dir);

// Returns the checkpoints that an argument may refer to: the argument itself if it is a checkpoint
// or a Hugging Face folder, or else the checkpoints in a checkpoints/ folder or a run directory,
// newest first. Throws Error if there are none; the message states what was found.
std::vector<Path> checkpoints_of(const Path& argument);
// Returns the first of them whose index and file sizes are intact. Throws Error if there is none.
// `skipped`, if given, receives the faults of those before it.
Path resolve_checkpoint(const Path& argument, std::vector<std::string>* skipped = nullptr);

// Renames a checkpoint of a run to <step>.damaged (or <step>.damaged-2 …), so that no later start
// reads it. Returns the new path.
Path rename_damaged(const Path& checkpoint);

// Results of earlier calls of prune(), by path: true for an intact checkpoint.
using SeenCheckpoints = std::map<Path, bool>;

struct KeepRule {
  int64_t keep = 3;                    // number of newest checkpoints to keep; 0: all
  int64_t keep_every_steps = 0;        // also keep steps that are multiples of this; 0: none
  std::vector<int64_t> at_steps = {};  // also keep these steps
  std::function<bool(int64_t step)> also = {};  // also keep steps for which this returns true
  std::vector<int64_t> saved = {};  // steps saved by this process, in order; kept before others
  int64_t started_from = -1;        // also keep this step
  SeenCheckpoints* seen = nullptr;  // cache of the results of earlier calls
};

// Removes the intact checkpoints that no rule keeps, and the remains of unfinished saves of
// processes that have ended. The `keep` checkpoints that are kept are those that this process
// saved, latest first, then the newest of the others. Checkpoints newer than the latest save of
// this process belong to another run and are kept. The newest intact checkpoint is always kept, and
// so are damaged ones, for inspection. Each folder is renamed before it is removed, so that no
// checkpoint is ever incomplete. Returns the removed paths. If some cannot be removed, throws Error
// that names them, after the others are removed.
std::vector<Path> prune(const Path& checkpoints_dir, const KeepRule& rule);

// Removes the remains of this process's failed saves. Requires that no save is under way.
void remove_own_unfinished(const Path& checkpoints_dir);

}  // namespace tessera::checkpoint
