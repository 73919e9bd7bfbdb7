#include "compile/pauses.h"

#include <optional>

namespace tessera {

std::vector<Pause> longest_pauses(const Program& p) {
  std::vector<Pause> longest(p.frames.size());
  std::vector<std::optional<size_t>> last(p.frames.size());
  std::vector<int64_t> computed(p.schedule.size() + 1, 0);  // before each position
  for (size_t c = 0; c < p.schedule.size(); ++c) {
    const Call& call = p.schedule[c];
    const Segment& s = p.segment(call);
    computed[c + 1] = computed[c] + (s.queue == Queue::kCompute);
    for (size_t i = 0; i < call.frames.size(); ++i) {
      const auto f = static_cast<size_t>(call.frames[i]);
      if (last[f] && s.frames[i].access == Access::kRead) {
        const int64_t calls = computed[c] - computed[*last[f] + 1];
        if (calls > longest[f].calls) longest[f] = {*last[f], c, calls};
      }
      last[f] = c;
    }
  }
  return longest;
}

}  // namespace tessera
