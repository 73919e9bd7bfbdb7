// A sum over ranks: each gives its own numbers, and zero for those of other ranks. A sum passes on
// numbers that are not finite, which a maximum may drop.
#include "eval/gathered_logits.h"

#include <algorithm>

namespace tessera::eval {
namespace {

// The number of logits that ranks exchange at once, which bounds the memory that this needs.
constexpr int64_t kLogitsAtOnce = 1 << 22;

}  // namespace

std::span<const float> GatheredLogits::gather(const LogitsPart& part,
                                              std::span<const LogitsPlace> places,
                                              int64_t vocabulary, comm::World& world) {
  const auto at_once = static_cast<size_t>(std::max<int64_t>(1, kLogitsAtOnce / vocabulary));
  logits_.clear();
  for (; !places.empty(); places = places.subspan(std::min(at_once, places.size()))) {
    const size_t count = std::min(at_once, places.size());
    exchanged_.assign(count * static_cast<size_t>(vocabulary), 0);
    for (size_t i = 0; i < count; ++i)
      std::ranges::copy(part.at(places[i].row, places[i].token),
                        exchanged_.begin() + static_cast<int64_t>(i) * vocabulary + part.first_id);
    world.all_reduce(exchanged_, comm::Reduction::kSum);
    logits_.insert(logits_.end(), exchanged_.begin(), exchanged_.end());
  }
  return logits_;
}

}  // namespace tessera::eval
