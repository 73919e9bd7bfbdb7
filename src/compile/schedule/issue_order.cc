// The order in which a stage issues its actions and messages: by the simulated time at which an
// action starts or a message's producer finishes. All stages sort the same simulated times with the
// same tie-breaks, so the two ends of a connection issue their messages in the same order, which
// first-in-first-out channels need.
#include "compile/schedule/issue_order.h"

#include <algorithm>
#include <tuple>

namespace tessera::compile {
namespace {

auto place_of(const Issue& i) {
  return std::tuple(i.is_message ? i.action.finish : i.action.start, !i.is_message, i.backward,
                    i.action.chunk, i.action.microbatch);
}

}  // namespace

std::vector<Issue> issue_order(const StageLayers& share, int64_t first_backward) {
  const int64_t stages = share.pipeline.stages, last = share.pipeline.chunks() - 1;
  std::vector<Issue> order;
  const auto message = [&](const Action& a, bool backward, int64_t from, int64_t to) {
    if (from == share.stage || to == share.stage)
      order.push_back({true, a, backward, to == share.stage});
  };
  for (int64_t s = 0; s < stages; ++s)
    for (const Action& a : share.actions[s]) {
      if (s == share.stage) order.push_back({.is_message = false, .action = a});
      if (stages == 1) continue;
      if (a.kind == ActionKind::kForward && a.chunk < last) message(a, false, s, (s + 1) % stages);
      if (a.kind == ActionKind::kBackward && a.chunk > first_backward)
        message(a, true, s, (s + stages - 1) % stages);
    }
  std::stable_sort(order.begin(), order.end(),
                   [](const Issue& a, const Issue& b) { return place_of(a) < place_of(b); });
  return order;
}

// ---- Emits the messages at the borders of chunks: the values that cross the cut at the end of a
// chunk.

// Returns the first chunk that computes in the backward.
int64_t StageMessages::first_backward() const {
  const auto computes = [&](const ChunkBlock& v) { return e_.segments[v.block].backward != kNone; };
  int64_t chunk = 0;
  for (; chunk < share_.pipeline.chunks(); ++chunk) {
    const std::vector<ChunkBlock> visits = own_.visits(chunk);
    if (std::any_of(visits.begin(), visits.end(), computes)) break;
  }
  return chunk;
}

void StageMessages::sent(const Action& a, SegmentId BoundarySegments::*what) {
  if (share_.pipeline.stages == 1 || own_.is_last(a.chunk)) return;
  const Cut cut = e_.cuts.at(own_.end_layer(a.chunk));
  calls_.add(e_.messages[cut.messages].*what, cut.position, a.microbatch,
             {cut.position, cut.position}, a.chunk);
}

void StageMessages::issue(const Issue& issue) {
  const int64_t m = issue.action.microbatch, from = issue.action.chunk;
  // A forward message carries the position after the producer's last layer, a backward one the
  // position before its first layer.
  const int64_t layer = issue.backward ? own_.first_layer(from) : own_.end_layer(from);
  const int64_t chunk = !issue.receives ? from : (issue.backward ? from - 1 : from + 1);
  const auto& [messages, position] = e_.cuts.at(layer);
  const BoundarySegments& s = e_.messages[messages];
  const SegmentId segment = issue.backward ? (issue.receives ? s.receive_backward : s.send_backward)
                                           : (issue.receives ? s.receive_forward : s.send_forward);
  calls_.add(segment, position, m, {position, position}, chunk);
  const int64_t stages = share_.pipeline.stages;
  // Forward messages go to the next stage, backward ones to the previous; a receive looks the other
  // way.
  const int64_t step = (issue.backward == issue.receives) ? 1 : stages - 1;
  calls_.last().comm.peer = (share_.stage + step) % stages;
}

}  // namespace tessera::compile
