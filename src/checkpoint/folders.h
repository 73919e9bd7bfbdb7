// The checkpoints of a run: which there are, which is the latest whole one, which may go.
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
  int64_t bytes = 0;   // of all its files
  std::string broken;  // why it cannot be read; empty: index and sizes are whole
};

// Returns all entries of a checkpoints folder whose name is a step, by step: whole ones, unfinished
// saves, and those renamed to <step>.damaged. The latter two are listed as broken, and so is an
// entry that cannot be read. A folder that does not exist has none.
std::vector<FoundCheckpoint> list_checkpoints(const Path& checkpoints_dir);

// The contents of a checkpoints folder, by names; a folder counts as an unfinished save of version
// 0.1 (<step>.part) only if it holds only files of a save. Throws FileError if it cannot be
// read.
struct CheckpointNames {
  struct Entry {
    int64_t step = 0;
    Path path;
  };
  std::vector<Entry> finished;    // <step>/, rising
  std::vector<Entry> unfinished;  // left by a save, or under way in another process
  std::vector<Entry> damaged;     // <step>.damaged: found damaged by an earlier start
};
CheckpointNames names_in(const Path& checkpoints_dir);

struct LatestCheckpoint {
  std::optional<FoundCheckpoint> found;
  std::vector<FoundCheckpoint> skipped;  // newer than `found` and damaged, with their reasons
};

// The checkpoint of the highest step whose index and sizes are whole. Throws FileError if one that
// is newer cannot be read.
LatestCheckpoint find_latest(const Path& checkpoints_dir);

// Returns the checkpoints that an argument may refer to, the best first: a checkpoint folder
// itself, a Hugging Face folder, or those of a checkpoints/ folder or a run directory, the newest
// first. Throws Error that names what was found instead.
std::vector<Path> checkpoints_of(const Path& argument);
// Returns the first of them whose index and sizes are whole. Throws Error if there is none.
// `skipped`, if given, receives what is wrong with those before it.
Path resolve_checkpoint(const Path& argument, std::vector<std::string>* skipped = nullptr);

// Renames a checkpoint of a run to <step>.damaged (or <step>.damaged-2 …), so that no later start
// reads it. Returns the new place.
Path rename_damaged(const Path& checkpoint);

// Results of earlier prunes by path: true for a whole checkpoint.
using SeenCheckpoints = std::map<Path, bool>;

struct KeepRule {
  int64_t keep = 3;                    // newest ones kept; 0: all
  int64_t keep_every_steps = 0;        // and those whose step is a multiple of this; 0: none
  std::vector<int64_t> at_steps = {};  // and these
  std::function<bool(int64_t step)> also = {};  // and those of which this says so
  std::vector<int64_t> saved = {};  // steps saved by this process, in order; kept before others
  int64_t started_from = -1;        // is kept
  SeenCheckpoints* seen = nullptr;  // caches results of earlier prunes
};

// Removes the whole checkpoints that no rule keeps, and what unfinished saves of ended processes
// left. Of the `keep` that stay, the last that this process saved come first, then the newest of
// the others; those newer than what this process saved last are not its own and stay. The newest
// whole one always stays, and so do damaged ones, for a person to look at. Each is renamed before
// it is removed, so that none is ever half there. Returns what was removed. Throws Error that names
// those that cannot be removed, once the others are.
std::vector<Path> prune(const Path& checkpoints_dir, const KeepRule& rule);

}  // namespace tessera::checkpoint
