#include "train/live_values.h"

namespace tessera {

std::vector<bool> live_values(const Program& program) {
  std::vector<bool> live(program.values.size(), false);
  for (size_t v = 0; v < live.size(); ++v) live[v] = program.values[v].frame != kNone;
  for (const Segment& s : program.segments)
    for (const Op& op : s.ops)
      for (const ValueId v : op.inputs)
        if (v != kNone) live[static_cast<size_t>(v)] = true;
  return live;
}

}  // namespace tessera
