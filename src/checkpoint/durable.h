// Moves and removals of whole folders that a crash leaves done or not done, never half.
#pragma once

#include "base/file.h"

namespace tessera {

void sync_folder(const Path& folder);  // its list of names, to the disk

// Makes `folder` and those above it that are missing, and flushes the lists they stand in.
void make_folder(const Path& folder);

// Puts the finished folder `part` at `place`. What stood there is removed afterwards. The lists of
// names are flushed before it returns.
void put_folder(const Path& part, const Path& place);

// Removes a folder: first renamed to `<folder>.part`, then emptied.
void remove_folder(const Path& folder);

}  // namespace tessera
