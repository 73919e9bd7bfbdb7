// Pipeline schedules: pure functions that give the actions of every stage, with their times.
//
// The model is divided into chunks; chunk c is on stage c mod S. An action is the forward, the
// backward, or (zero_bubble) the weight-gradient part of the backward of one chunk for one
// micro-batch.
//
//   gpipe              all forwards, then all backwards
//   1f1b               S − s − 1 forwards ahead, then one forward, one backward in turn
//                      (PipeDream-flush, Narayanan et al. 2021): at most S − s micro-batches in
//                      flight
//   interleaved_1f1b   the same with V chunks per stage, in groups of S micro-batches
//                      (Megatron-LM's order; the last group may be smaller)
//   zero_bubble        backward in two parts; the weight-gradient part fills idle time (ZB-H1,
//                      Qi et al. 2023), with at most as many micro-batches in flight as 1f1b
//
// If messages take no time and chunks have equal costs, a step of gpipe and 1f1b lasts
// (m + S − 1)(F + B), and one of interleaved_1f1b (m V + S − 1)(F + B) of its chunks if S divides
// m. The idle time of zero_bubble is 0.33 to 0.67 of that of 1f1b.
#pragma once

#include <cstdint>
#include <vector>

#include "base/enum_array.h"
#include "compile/layout.h"

namespace tessera::compile {

// ---- The numbers that describe a pipeline, and the actions of its stages.

enum class ActionKind : uint8_t { kForward, kBackward, kWeights };
constexpr size_t count_of(ActionKind) { return static_cast<size_t>(ActionKind::kWeights) + 1; }

struct Action {
  ActionKind kind = ActionKind::kForward;
  int64_t chunk = 0, microbatch = 0;
  int64_t start = 0, finish = 0;  // if messages take no time
};

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t stages = 1, interleave = 1, microbatches = 1;
  std::vector<int64_t> cost;  // cost of each chunk's forward, at least 1; a backward costs twice
  bool backward = true;       // false: forwards only, for validation

  int64_t chunks() const { return stages * interleave; }
};

// Returns the maximum number of (micro-batch, chunk) pairs that `stage` may have started and not
// finished.
int64_t most_in_flight(const PipelineShape& shape, int64_t stage);

// Returns the actions of each stage in order. Within a chunk and a kind, micro-batches are in
// order.
std::vector<std::vector<Action>> pipeline_actions(const PipelineShape& shape);

}  // namespace tessera::compile
