// The order in which a stage issues its actions and messages: by the simulated time at which an
// action starts or a message's producer finishes. All stages sort the same simulated times with the
// same tie-breaks, so the two ends of a connection issue their messages in the same order, which
// first-in-first-out channels need.
#include "compile/schedule/issue_order.h"

#include <algorithm>
#include <tuple>

namespace tessera {
namespace {

auto place_of(const Issue& i) {
  return std::tuple(i.is_message ? i.action.finish : i.action.start, !i.is_message, i.backward,
                    i.action.chunk, i.action.microbatch);
}

}  // namespace

std::vector<Issue> issue_order(const StageShare& share, int64_t first_backward) {
  const int64_t stages = share.pipeline.stages, last = share.pipeline.chunks() - 1;
  std::vector<Issue> order;
  const auto message = [&](const Action& a, bool backward, int64_t from, int64_t to) {
    if (from == share.stage || to == share.stage)
      order.push_back({true, a, backward, to == share.stage});
  };
  for (int64_t s = 0; s < stages; ++s)
    for (const Action& a : share.actions[s]) {
      if (s == share.stage) order.push_back({.is_message = false, .action = a});
      if (stages == 1) continue;
      if (a.kind == ActionKind::kForward && a.chunk < last) message(a, false, s, (s + 1) % stages);
      if (a.kind == ActionKind::kBackward && a.chunk > first_backward)
        message(a, true, s, (s + stages - 1) % stages);
    }
  std::stable_sort(order.begin(), order.end(),
                   [](const Issue& a, const Issue& b) { return place_of(a) < place_of(b); });
  return order;
}

}  // namespace tessera
