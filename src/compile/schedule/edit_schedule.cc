// Each edit rewrites the schedule in one pass. Removed entries change the ids of later ones.
#include "compile/schedule/edit_schedule.h"

namespace tessera::compile {

void AddedCalls::apply(Program& p) {
  IdVector<CallId, Call> calls;
  std::swap(calls, p.schedule);
  const auto add = [&](std::map<CallId, std::vector<Call>>& added, CallId at) {
    const auto found = added.find(at);
    if (found == added.end()) return;
    for (Call& c : found->second) p.schedule.push_back(std::move(c));
  };
  for (const CallId c : calls.ids()) {
    add(before_, c);
    p.schedule.push_back(std::move(calls[c]));
    add(after_, c);
  }
}

// Ids are indices: the remaining entries move up, and a table from old to new ids renames all
// references.
void drop_uncalled(Program& p) {
  IdVector<SegmentId, bool> called(p.segments.size(), false);
  for (const Call& c : p.schedule) called[c.segment] = true;
  IdVector<SegmentId, SegmentId> now(p.segments.size());
  IdVector<SegmentId, Segment> kept;
  for (const SegmentId s : p.segments.ids())
    if (called[s]) now[s] = kept.push_back(std::move(p.segments[s]));
  p.segments = std::move(kept);
  for (Call& c : p.schedule) c.segment = now[c.segment];
}

void drop_untouched(Program& p) {
  IdVector<BufferId, bool> touched(p.buffers.size(), false);
  for (const Call& c : p.schedule)
    for (const BufferId f : c.buffers) touched[f] = true;
  IdVector<BufferId, BufferId> now(p.buffers.size());
  IdVector<BufferId, Buffer> kept;
  for (const BufferId f : p.buffers.ids())
    if (touched[f] || p.buffers[f].state) now[f] = kept.push_back(p.buffers[f]);
  p.buffers = std::move(kept);
  for (Call& c : p.schedule)
    for (BufferId& f : c.buffers) f = now[f];
}

}  // namespace tessera::compile
