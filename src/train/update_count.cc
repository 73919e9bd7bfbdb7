#include "train/update_count.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr const char* kUpdates = "updates";

}  // namespace

int64_t updates_before(const CheckpointHeader& header) {
  const auto stored = [&](const char* name) -> const int64_t* {
    const Tree* found = header.state.as_members() ? header.state.find(name) : nullptr;
    return found ? std::get_if<int64_t>(&found->value) : nullptr;
  };
  if (const int64_t* updates = stored(kUpdates))
    return std::clamp<int64_t>(*updates, 0, header.step);
  const int64_t* skipped = stored("skipped");
  return header.step - (skipped ? std::clamp<int64_t>(*skipped, 0, header.step) : 0);
}

void save_updates(int64_t updates, Tree& state) { state.set(kUpdates, Tree(updates)); }

}  // namespace tessera
