// The order of actions per stage for GPipe (Huang et al. 2019), 1F1B (Narayanan et al. 2019) and
// interleaved 1F1B (Narayanan et al. 2021); zero_bubble is simulated greedily
// (pipeline_simulation.cc).
//
// 1F1B, 3 stages, 4 micro-batches: `ahead` forwards (warm-up), then one forward and one backward in
// turn, then the remaining backwards:
//
//   stage 0   F0 F1 F2 B0 F3 B1 B2 B3        ahead = 2
//   stage 1   F0 F1 B0 F2 B1 F3 B2 B3        ahead = 1
//   stage 2   F0 B0 F1 B1 F2 B2 F3 B3        ahead = 0
#include "compile/schedule/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "compile/schedule/pipeline_simulation.h"

namespace tessera {
namespace {

// Returns `ahead` forwards, then a forward and a backward in turn, then the remaining backwards.
std::vector<Action> alternate(const std::vector<Action>& forward,
                              const std::vector<Action>& backward, size_t ahead) {
  std::vector<Action> list(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (size_t f = ahead; f < forward.size(); ++f) {
    list.push_back(forward[f]);
    list.push_back(backward[f - ahead]);
  }
  list.insert(list.end(), backward.end() - static_cast<std::ptrdiff_t>(ahead), backward.end());
  return list;
}

// Returns the forwards (or backwards) of a stage: groups of S micro-batches pass through its V
// chunks, the first group through chunk 0, then chunk 1, and so on.
std::vector<Action> in_order(const PipelineShape& p, int64_t stage, ActionKind kind) {
  std::vector<Action> list;
  const int64_t S = p.stages, V = p.interleave;
  for (int64_t k = 0; k < p.microbatches * V; ++k) {
    int64_t v = k % (S * V) / S;
    if (kind == ActionKind::kBackward) v = V - 1 - v;
    list.push_back({kind, v * S + stage, k / (S * V) * S + k % S, 0, 0});
  }
  return list;
}

// Interleaved lists are made for a multiple of S micro-batches. The surplus ones are then removed,
// which delays nothing and keeps every order.
std::vector<std::vector<Action>> lists(const PipelineShape& shape) {
  PipelineShape p = shape;
  if (p.interleave > 1) p.microbatches = (p.microbatches + p.stages - 1) / p.stages * p.stages;
  std::vector<std::vector<Action>> all;
  for (int64_t s = 0; s < p.stages; ++s) {
    std::vector<Action> list = in_order(p, s, ActionKind::kForward);
    if (p.backward) {
      const int64_t ahead = p.schedule == PipelineSchedule::kGpipe ? p.microbatches * p.interleave
                                                                   : most_in_flight(p, s) - 1;
      list = alternate(list, in_order(p, s, ActionKind::kBackward), static_cast<size_t>(ahead));
    }
    std::erase_if(list, [&](const Action& a) { return a.microbatch >= shape.microbatches; });
    all.push_back(std::move(list));
  }
  return all;
}

}  // namespace

std::vector<std::vector<Action>> pipeline_actions(const PipelineShape& shape) {
  CHECK(shape.cost.empty() || std::ssize(shape.cost) == shape.chunks(), "{} costs of {} chunks",
        shape.cost.size(), shape.chunks());
  CHECK(shape.schedule != PipelineSchedule::kZeroBubble || shape.interleave == 1,
        "zero_bubble with {} chunks a stage", shape.interleave);
  return shape.schedule == PipelineSchedule::kZeroBubble ? run_greedily(shape)
                                                         : run_lists(shape, lists(shape));
}

}  // namespace tessera
