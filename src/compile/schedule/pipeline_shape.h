// The numbers that describe a pipeline, and the actions of its stages.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/layout.h"

namespace tessera {

enum class ActionKind : uint8_t { kForward, kBackward, kWeights };

struct Action {
  ActionKind kind = ActionKind::kForward;
  int64_t chunk = 0, microbatch = 0;
  int64_t start = 0, finish = 0;  // where messages are free
};

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t stages = 1, interleave = 1, microbatches = 1;
  std::vector<int64_t> cost;  // of the forward of each chunk, at least 1; its backward takes twice
  bool backward = true;       // else forwards alone: validation

  int64_t chunks() const { return stages * interleave; }
};

// Most micro-batches times chunks that `stage` may have begun and not finished.
int64_t most_in_flight(const PipelineShape& shape, int64_t stage);

}  // namespace tessera
