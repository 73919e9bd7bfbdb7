// One pass over the schedule: per buffer, the longest interval in compute calls between two uses.
#include "compile/schedule/pauses.h"

namespace tessera {

IdVector<FrameId, Pause> longest_pauses(const Program& p) {
  IdVector<FrameId, Pause> longest(p.frames.size());
  IdVector<FrameId, CallId> last(p.frames.size());
  IdVector<CallId, int64_t> until(p.schedule.size());  // compute calls up to each, inclusive
  int64_t computed = 0;
  for (const CallId c : p.schedule.ids()) {
    const Call& call = p.schedule[c];
    const Segment& s = p.segment(call);
    const int64_t before = computed;
    computed += s.queue == Queue::kCompute;
    until[c] = computed;
    for (size_t i = 0; i < call.frames.size(); ++i) {
      const FrameId f = call.frames[i];
      if (last[f] && s.frames[i].access == Access::kRead) {
        const int64_t calls = before - until[last[f]];
        if (calls > longest[f].calls) longest[f] = {last[f], c, calls};
      }
      last[f] = c;
    }
  }
  return longest;
}

}  // namespace tessera
