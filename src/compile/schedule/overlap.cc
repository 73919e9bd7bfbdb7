// Moves receives, fetches and weight gathers to earlier positions in the schedule, past at most
// `calls` compute calls, so that they overlap with those. A call moves by swaps with its
// predecessor and stops at one that it depends on: the same buffer with a write, the same queue,
// or, if transfers must have one order on all ranks, another transfer between stages.
#include "compile/schedule/schedule_passes.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tessera::compile {
namespace {

bool moves_early(const Program& p, const Call& c) {
  const Segment& s = p.segment(c);
  if (s.queue == Queue::kReceiveForward || s.queue == Queue::kReceiveBackward) return true;
  if (s.queue == Queue::kCopyIn) return true;
  if (s.queue != Queue::kData || c.comm.kind != CommKind::kAllGather) return false;
  // Weights that are kept for the whole run are gathered at the start in any case.
  for (size_t i = 0; i < c.buffers.size(); ++i)
    if (s.buffers[i].access != Access::kRead && p.buffer(c.buffers[i]).state) return false;
  return true;
}

// Returns true if ranks of several stages take part in the call's transfer.
bool spans_stages(const Program& p, const Call& c) {
  const GroupRef& over = c.comm.over;
  return p.segment(c).queue >= Queue::kSendForward || over.kind != GroupRef::Kind::kAxes ||
         over.has(AxisKind::kPipeline);
}

bool conflict(const Program& p, const Call& a, const Call& b) {
  const Segment &s = p.segment(a), &t = p.segment(b);
  for (size_t i = 0; i < a.buffers.size(); ++i)
    for (size_t j = 0; j < b.buffers.size(); ++j)
      if (a.buffers[i] == b.buffers[j] &&
          (s.buffers[i].access != Access::kRead || t.buffers[j].access != Access::kRead))
        return true;
  return false;
}

}  // namespace

void overlap(Program& p, int64_t calls) {
  if (calls == 0) return;
  for (auto at = p.schedule.begin(); at != p.schedule.end(); ++at) {
    if (!moves_early(p, *at)) continue;
    const Queue queue = p.segment(*at).queue;
    const bool ordered = p.ordered_transfers && spans_stages(p, *at);
    int64_t passed = 0;
    for (auto call = at; call != p.schedule.begin(); --call) {
      Call& before = *std::prev(call);
      const bool computes = p.segment(before).queue == Queue::kCompute;
      const bool same =
          p.segment(before).queue == queue && (queue != Queue::kData || moves_early(p, before));
      if (same || (ordered && spans_stages(p, before)) || conflict(p, before, *call) ||
          (computes && passed == calls))
        break;
      if (computes) ++passed;
      std::swap(before, *call);
    }
  }
}

}  // namespace tessera::compile
