// Disk space that a run sets aside for its next checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace tessera::checkpoint {

// A file of the size of a checkpoint (of this rank's part of it) in the folder of the checkpoints.
// When a save finds the disk full, the file is removed, so that the save still fits.
class Reserve {
 public:
  // Does not touch the disk yet. With 0 bytes there is no reserve.
  Reserve(Path folder, int64_t rank, int64_t bytes);
  ~Reserve();  // removes the file, and the folder if it is empty and take() made it
  Reserve(const Reserve&) = delete;
  Reserve& operator=(const Reserve&) = delete;

  // Allocates the space, unless it is allocated. Returns the reason if that is not possible.
  std::string take();
  bool release();  // true: the space was allocated and is free now

 private:
  Path folder_, file_;
  int64_t bytes_;
  bool made_folder_ = false, held_ = false;
  uint64_t device_ = 0, inode_ = 0;  // of the file: another run may have put its own there since
};

// Removes the reserves that a killed run left in `folder`.
void remove_old_reserves(const Path& folder);

}  // namespace tessera::checkpoint
