// Each edit rewrites the schedule in one pass. Removed entries change the ids of later ones.
#include "compile/schedule/edit_schedule.h"

namespace tessera::compile {

void AddedCalls::apply(Program& p) {
  IdVector<CallId, Call> calls;
  calls.swap(p.schedule);
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
  IdVector<FrameId, bool> touched(p.frames.size(), false);
  for (const Call& c : p.schedule)
    for (const FrameId f : c.frames) touched[f] = true;
  IdVector<FrameId, FrameId> now(p.frames.size());
  IdVector<FrameId, Frame> kept;
  for (const FrameId f : p.frames.ids())
    if (touched[f] || p.frames[f].state) now[f] = kept.push_back(p.frames[f]);
  p.frames = std::move(kept);
  for (Call& c : p.schedule)
    for (FrameId& f : c.frames) f = now[f];
}

}  // namespace tessera::compile
