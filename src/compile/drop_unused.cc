#include "compile/schedule.h"

namespace tessera {

void drop_uncalled(Program& p) {
  std::vector<SegmentId> now(p.segments.size(), kNone);
  for (const Call& c : p.schedule) now[static_cast<size_t>(c.segment)] = 0;
  std::vector<Segment> kept;
  for (size_t s = 0; s < p.segments.size(); ++s) {
    if (now[s] == kNone) continue;
    now[s] = static_cast<SegmentId>(kept.size());
    kept.push_back(std::move(p.segments[s]));
  }
  p.segments = std::move(kept);
  for (Call& c : p.schedule) c.segment = now[static_cast<size_t>(c.segment)];
}

void drop_untouched(Program& p) {
  std::vector<FrameId> now(p.frames.size(), kNone);
  std::vector<bool> touched(p.frames.size(), false);
  for (const Call& c : p.schedule)
    for (const FrameId f : c.frames) touched[static_cast<size_t>(f)] = true;
  std::vector<Frame> kept;
  for (size_t f = 0; f < p.frames.size(); ++f) {
    if (!touched[f] && !p.frames[f].state) continue;
    now[f] = static_cast<FrameId>(kept.size());
    kept.push_back(p.frames[f]);
  }
  p.frames = std::move(kept);
  for (Call& c : p.schedule)
    for (FrameId& f : c.frames) f = now[static_cast<size_t>(f)];
}

}  // namespace tessera
