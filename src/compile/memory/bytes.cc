#include "compile/memory/bytes.h"

namespace tessera {

Touches::Touches(const Program& p) : p_(p) {
  for (int q = 0; q < kQueues; ++q) scratch_offset_[q] = scratch_offset(p, static_cast<Queue>(q));
}

Extent Touches::scratch(const Segment& s) const {
  const int64_t from = scratch_offset_[static_cast<size_t>(s.queue)];
  return {from, from + s.scratch_bytes};
}

std::vector<Touch> Touches::of(const Call& c) const {
  const Segment& s = p_.segment(c);
  std::vector<Touch> touches;
  touches.reserve(c.frames.size() + 1);
  for (size_t i = 0; i < c.frames.size(); ++i)
    touches.push_back({c.frames[i], s.frames[i].access != Access::kRead, frame(c.frames[i])});
  if (s.scratch_bytes > 0) touches.push_back({kNone, true, scratch(s)});
  return touches;
}

}  // namespace tessera
