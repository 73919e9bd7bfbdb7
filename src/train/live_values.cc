// A value is live if some op reads it or if it is in a buffer that outlives its segment.
#include "train/live_values.h"

namespace tessera {

IdVector<ValueId, bool> live_values(const Program& program) {
  IdVector<ValueId, bool> live(program.values.size(), false);
  for (const ValueId v : live.ids()) live[v] = program.values[v].frame != kNone;
  for (const Segment& s : program.segments)
    for (const Op& op : s.ops)
      for (const ValueId v : op.inputs)
        if (v != kNone) live[v] = true;
  return live;
}

}  // namespace tessera
