// Reserves disk space for the next checkpoint of a run.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace tessera::checkpoint {

// A file in the checkpoints folder, as large as this rank's part of a checkpoint. If a save finds
// the disk full, the file is removed, so that the save still fits.
class Reserve {
 public:
  // Does not access the disk yet. With 0 bytes there is no reserve.
  Reserve(Path folder, int64_t rank, int64_t bytes);
  ~Reserve();  // removes the file, and the folder if it is empty and take() created it
  Reserve(const Reserve&) = delete;
  Reserve& operator=(const Reserve&) = delete;

  // Allocates the space, unless it is allocated already. Returns the reason of a failure, or an
  // empty string.
  std::string take();
  bool release();  // frees the space; returns true if it was allocated

 private:
  Path folder_, file_;
  int64_t bytes_;
  bool made_folder_ = false, held_ = false;
  uint64_t device_ = 0, inode_ = 0;  // identify the file, which another run may have replaced
};

// Removes the reserve files that a killed run left in `folder`.
void remove_old_reserves(const Path& folder);

}  // namespace tessera::checkpoint
