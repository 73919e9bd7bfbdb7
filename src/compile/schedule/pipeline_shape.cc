#include "compile/schedule/pipeline_shape.h"

#include <algorithm>

namespace tessera {

// 1F1B: a stage starts as many forwards as there are stages from it to the last, itself included;
// then the first backward arrives. Interleaved: two more per later stage, plus S for each earlier
// chunk (Megatron-LM's warm-up).
int64_t most_in_flight(const PipelineShape& p, int64_t stage) {
  const int64_t all = p.microbatches * p.interleave, behind = p.stages - stage - 1;
  if (p.schedule == PipelineSchedule::kGpipe) return all;
  if (p.interleave == 1) return std::min(all, behind + 1);
  return std::min(all, 2 * behind + (p.interleave - 1) * p.stages + 1);
}

}  // namespace tessera
