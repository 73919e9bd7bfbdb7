#include "ir/program.h"

namespace tessera {

int parameter_of(const Program& p, const Segment& s, ValueId v) {
  const FrameKindId kind = p[v].frame;
  if (kind == kNone) return kNone;
  for (size_t i = 0; i < s.frames.size(); ++i)
    if (s.frames[i].kind == kind) return static_cast<int>(i);
  return kNone;
}

}  // namespace tessera
