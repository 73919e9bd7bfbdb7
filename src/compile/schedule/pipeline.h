// Who computes what when, over the stages of a pipeline: pure functions of a few numbers.
//
// The model is cut into chunks; chunk c stands on stage c mod S. An action is the forward, the
// backward, or (zero_bubble) the weights' part of the backward of one chunk for one micro-batch.
//
//   gpipe              all forwards, then all backwards
//   1f1b               S − s − 1 forwards ahead, then one forward, one backward (PipeDream-flush,
//                      Narayanan et al. 2021): at most S − s micro-batches in flight
//   interleaved_1f1b   the same over V chunks a stage, in groups of S micro-batches (Megatron-LM's
//                      order; of a last group that is not full, what is there)
//   zero_bubble        backward in two parts; the weights' part fills what would be idle (ZB-H1,
//                      Qi et al. 2023), within 1f1b's number in flight
//
// With sends free and equal chunks, gpipe and 1f1b take (m + S − 1)(F + B), interleaved_1f1b where
// S divides m (m V + S − 1)(F + B) of its chunks, zero_bubble idles 0.33 to 0.67 of 1f1b's time.
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
  int64_t start = 0, finish = 0;  // where messages are free
};

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t stages = 1, interleave = 1, microbatches = 1;
  std::vector<int64_t> cost;  // cost of each chunk's forward, at least 1; a backward costs twice
  bool backward = true;       // else forwards alone: validation

  int64_t chunks() const { return stages * interleave; }
};

// Most micro-batches times chunks that `stage` may have begun and not finished.
int64_t most_in_flight(const PipelineShape& shape, int64_t stage);

// The actions of each stage in order. Micro-batches of a chunk follow each other, in every kind.
std::vector<std::vector<Action>> pipeline_actions(const PipelineShape& shape);

}  // namespace tessera::compile
