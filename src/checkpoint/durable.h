// Moves and removals of whole folders that a crash leaves done or not done, never half.
#pragma once

#include "base/file.h"

namespace tessera::checkpoint {

void sync_folder(const Path& folder);  // its list of names, to the disk

// Makes `folder` and those above it that are missing, and flushes the lists they stand in.
void make_folder(const Path& folder);

// Creates a new, empty folder next to `place`, under a name that is unique to this process
// (base/temporary.h), and removes those that ended processes left there.
Path make_part_folder(const Path& place);

// Renames the finished folder `part` to `place`. A checkpoint that is there is exchanged and then
// removed. The lists of names are flushed before it returns.
void put_folder(const Path& part, const Path& place);
// Does the same, but throws Error if anything other than an empty folder exists at `place`.
void put_new_folder(const Path& part, const Path& place);

// Renames `folder` to `place`, which must not exist. Throws FileError (EXDEV: another disk).
void move_folder(const Path& folder, const Path& place);

// Removes a folder: it is renamed to a temporary name, then emptied.
void remove_folder(const Path& folder);

}  // namespace tessera::checkpoint
