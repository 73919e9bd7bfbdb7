// Creates, renames and removes whole folders so that a crash leaves each operation either complete
// or not done.
#pragma once

#include "base/file.h"

namespace tessera::checkpoint {

void sync_folder(const Path& folder);  // flushes the entries of the folder to disk

// Creates `folder` and its missing parents, and flushes the entries of those that changed.
void make_folder(const Path& folder);

// Creates a new, empty folder next to `place`, under a name that is unique to this process
// (base/temporary.h), and returns its path. Removes such folders of processes that have ended.
Path make_part_folder(const Path& place);

// Renames the finished folder `part` to `place`. An existing checkpoint there is replaced
// atomically and then removed. The entries of the parent folder are flushed before it returns.
void put_folder(const Path& part, const Path& place);
// Does the same, but throws Error if anything other than an empty folder exists at `place`.
void put_new_folder(const Path& part, const Path& place);

// Renames `folder` to `place`, which must not exist. Throws FileError (EXDEV: on another file
// system).
void move_folder(const Path& folder, const Path& place);

// Renames a folder to a temporary name, then removes it with all its contents.
void remove_folder(const Path& folder);

// The temporary folder of an export. The destructor removes it unless put() has renamed it.
class PartFolder {
 public:
  explicit PartFolder(const Path& place);
  ~PartFolder();
  PartFolder(const PartFolder&) = delete;
  PartFolder& operator=(const PartFolder&) = delete;
  const Path& path() const { return part_; }
  void put();  // as put_new_folder()

 private:
  Path place_, part_;
  bool done_ = false;
};

}  // namespace tessera::checkpoint
