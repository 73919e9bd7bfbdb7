// Emits the messages at the borders of chunks: the values that cross the cut at the end of a chunk.
#include "compile/schedule/stage_messages.h"

#include <algorithm>

namespace tessera {

int64_t StageMessages::first_backward() const {
  const auto computes = [&](const Visit& v) { return e_.segments[v.block].backward != kNone; };
  int64_t chunk = 0;
  for (; chunk < share_.pipeline.chunks(); ++chunk) {
    const std::vector<Visit> visits = own_.visits(chunk);
    if (std::any_of(visits.begin(), visits.end(), computes)) break;
  }
  return chunk;
}

void StageMessages::sent(const Action& a, SegmentId CrossingMessages::*what) {
  if (share_.pipeline.stages == 1 || own_.is_last(a.chunk)) return;
  const Cut cut = e_.cuts.at(static_cast<size_t>(own_.end_layer(a.chunk)));
  calls_.add(e_.messages[cut.messages].*what, cut.position, a.microbatch,
             {cut.position, cut.position}, a.chunk);
}

void StageMessages::issue(const Issue& issue) {
  const int64_t m = issue.action.microbatch, from = issue.action.chunk;
  // A forward message carries the position after the producer's last layer, a backward one the
  // position before its first layer.
  const int64_t layer = issue.backward ? own_.first_layer(from) : own_.end_layer(from);
  const int64_t chunk = !issue.receives ? from : (issue.backward ? from - 1 : from + 1);
  const auto& [messages, position] = e_.cuts.at(static_cast<size_t>(layer));
  const CrossingMessages& s = e_.messages[messages];
  const SegmentId segment = issue.backward ? (issue.receives ? s.receive_backward : s.send_backward)
                                           : (issue.receives ? s.receive_forward : s.send_forward);
  calls_.add(segment, position, m, {position, position}, chunk);
  const int64_t stages = share_.pipeline.stages;
  // Forward messages go to the next stage, backward ones to the previous; a receive looks the other
  // way.
  const int64_t step = (issue.backward == issue.receives) ? 1 : stages - 1;
  calls_.last().wire.peer = (share_.stage + step) % stages;
}

}  // namespace tessera
