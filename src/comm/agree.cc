#include "comm/agree.h"

namespace tessera {

void require_no_error(World& world, const std::string& own) {
  const std::vector<std::string> all = world.all_gather(own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    if (all.size() == 1) throw SharedError(all[rank]);
    throw SharedError("rank {} on {}: {}", rank, world.host(static_cast<int64_t>(rank)), all[rank]);
  }
}

}  // namespace tessera
