#include "compile/schedule/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "compile/schedule/pipeline_simulation.h"

namespace tessera {
namespace {

// `ahead` forwards, then forward and backward in turn, then what is left of the backwards.
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

// The k-th forward (or backward) of a stage: groups of S micro-batches go through the chunks.
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

// Of micro-batches that fill the last group too; then those that are not there are left out, which
// delays nothing and keeps every order.
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
  CHECK(shape.cost.empty() || static_cast<int64_t>(shape.cost.size()) == shape.chunks(),
        "{} costs of {} chunks", shape.cost.size(), shape.chunks());
  CHECK(shape.schedule != PipelineSchedule::kZeroBubble || shape.interleave == 1,
        "zero_bubble with {} chunks a stage", shape.interleave);
  return shape.schedule == PipelineSchedule::kZeroBubble ? run_greedily(shape)
                                                         : run_lists(shape, lists(shape));
}

}  // namespace tessera
