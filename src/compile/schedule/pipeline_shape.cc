#include "compile/schedule/pipeline_shape.h"

#include <algorithm>

namespace tessera {

int64_t most_in_flight(const PipelineShape& p, int64_t stage) {
  const int64_t all = p.microbatches * p.interleave, behind = p.stages - stage - 1;
  if (p.schedule == PipelineSchedule::kGpipe) return all;
  if (p.interleave == 1) return std::min(all, behind + 1);
  return std::min(all, 2 * behind + (p.interleave - 1) * p.stages + 1);
}

}  // namespace tessera
