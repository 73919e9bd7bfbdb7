// Errors that occur on one rank and that all ranks must handle together.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "comm/world.h"

namespace tessera::comm {

// An error that every rank throws at the same point of the program, so that the ranks can still
// communicate, for example to save a checkpoint.
class SharedError : public Error {
 public:
  using Error::Error;
};

// Collective. `own`: why this rank failed, empty if it did not. Throws a SharedError with the text
// of the first rank that failed, on every rank; returns if none did.
inline void require_no_error(World& world, const std::string& own) {
  const std::vector<std::string> all = world.all_gather(own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    if (all.size() == 1) throw SharedError(all[rank]);
    throw SharedError("rank {} on {}: {}", rank, world.host(rank), all[rank]);
  }
}

// Collective. Runs `part`, this rank's share of the work, which must not communicate, and then
// calls require_no_error() with the error that it threw, if any.
template <class F>
void on_all(World& world, const F& part) {
  std::string failed;
  try {
    part();
  } catch (const std::exception& e) {
    failed = e.what();
    if (failed.empty()) failed = "an error without a message";
  }
  require_no_error(world, failed);
}

}  // namespace tessera::comm
