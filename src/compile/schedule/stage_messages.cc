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

StageMessages::Cut StageMessages::cut_at(int64_t layer) const {
  const int64_t encoder = model_.encoder_layers, all = model_.all_layers();
  Crossing crossing = Crossing::kHidden;
  if (encoder > 0 && layer < all)
    crossing = layer <= encoder ? Crossing::kSource : Crossing::kMemory;
  return {e_.messages[static_cast<size_t>(crossing)],
          crossing == Crossing::kSource ? layer : layer - encoder};
}

void StageMessages::sent(const Action& a, SegmentId CrossingMessages::*what) {
  if (share_.pipeline.stages == 1 || own_.is_last(a.chunk)) return;
  const Cut cut = cut_at(own_.end_layer(a.chunk));
  calls_.add(cut.messages.*what, cut.position, a.microbatch, {cut.position, cut.position}, a.chunk);
}

void StageMessages::issue(const Issue& issue) {
  const int64_t m = issue.action.microbatch, from = issue.action.chunk;
  // A forward message carries what comes after the producer's layers, a backward one what comes
  // before them.
  const int64_t layer = issue.backward ? own_.first_layer(from) : own_.end_layer(from);
  const int64_t chunk = !issue.receives ? from : (issue.backward ? from - 1 : from + 1);
  const auto& [s, position] = cut_at(layer);
  const SegmentId segment = issue.backward ? (issue.receives ? s.receive_backward : s.send_backward)
                                           : (issue.receives ? s.receive_forward : s.send_forward);
  calls_.add(segment, position, m, {position, position}, chunk);
  const int64_t stages = share_.pipeline.stages;
  const int64_t step = (issue.backward == issue.receives) ? 1 : stages - 1;
  calls_.last().wire.peer = (share_.stage + step) % stages;
}

}  // namespace tessera
