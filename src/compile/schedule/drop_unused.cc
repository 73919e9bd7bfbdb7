#include "compile/schedule/drop_unused.h"

namespace tessera {

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

}  // namespace tessera
