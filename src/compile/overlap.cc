#include "compile/overlap.h"

#include <algorithm>
#include <utility>

#include "ir/mesh.h"

namespace tessera {
namespace {

bool moves_early(const Program& p, const Call& c) {
  const Segment& s = p.segment(c);
  if (s.queue == Queue::kReceiveForward || s.queue == Queue::kReceiveBackward) return true;
  if (s.queue == Queue::kCopyIn) return true;
  if (s.queue != Queue::kData || c.wire.operation != "all_gather") return false;
  // What stays for the whole run is gathered at the start anyway.
  for (size_t i = 0; i < c.frames.size(); ++i)
    if (s.frames[i].access != Access::kRead && p.frame(c.frames[i]).state) return false;
  return true;
}

// Whether ranks of several stages take part in what the call transfers.
bool spans_stages(const Program& p, const Call& c) {
  if (p.segment(c).queue >= Queue::kSendForward) return true;
  if (c.wire.over.empty()) return false;
  Coordinates at;
  at[AxisKind::kPipeline] = p.stage;
  const std::vector<int64_t> group = group_of(p.mesh, c.wire.over, rank_of(p.mesh, at));
  return std::any_of(group.begin(), group.end(), [&](int64_t rank) {
    return coordinates_of(p.mesh, rank)[AxisKind::kPipeline] != p.stage;
  });
}

bool conflict(const Program& p, const Call& a, const Call& b) {
  const Segment &s = p.segment(a), &t = p.segment(b);
  for (size_t i = 0; i < a.frames.size(); ++i)
    for (size_t j = 0; j < b.frames.size(); ++j)
      if (a.frames[i] == b.frames[j] &&
          (s.frames[i].access != Access::kRead || t.frames[j].access != Access::kRead))
        return true;
  return false;
}

}  // namespace

void overlap(Program& p, int64_t calls) {
  if (calls == 0) return;
  for (size_t at = 0; at < p.schedule.size(); ++at) {
    if (!moves_early(p, p.schedule[at])) continue;
    const Queue queue = p.segment(p.schedule[at]).queue;
    const bool ordered = p.ordered_transfers && spans_stages(p, p.schedule[at]);
    int64_t passed = 0;
    for (size_t i = at; i > 0; --i) {
      const Call& before = p.schedule[i - 1];
      const bool computes = p.segment(before).queue == Queue::kCompute;
      const bool same =
          p.segment(before).queue == queue && (queue != Queue::kData || moves_early(p, before));
      if (same || (ordered && spans_stages(p, before)) || conflict(p, before, p.schedule[i]) ||
          (computes && passed == calls))
        break;
      if (computes) ++passed;
      std::swap(p.schedule[i - 1], p.schedule[i]);
    }
  }
}

}  // namespace tessera
