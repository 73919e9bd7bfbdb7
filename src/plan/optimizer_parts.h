// What each optimizer of a run takes on a stage.
#pragma once

#include <vector>

#include "ir/program.h"
#include "plan/segment_time.h"

namespace tessera {

// In the order of the groups, after the optimizer of the weights in none. Those without weights on
// this stage are left out.
std::vector<OptimizerPart> optimizer_parts(const Program& program, SegmentTimes& times);

}  // namespace tessera
