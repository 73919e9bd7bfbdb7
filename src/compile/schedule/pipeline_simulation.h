// The stages' work, run with the costs of the shape and free messages: the order and the times of
// the actions of each stage.
#pragma once

#include <vector>

#include "compile/schedule/pipeline_shape.h"

namespace tessera {

// The lists in their own order, each action as soon as what it needs is there.
std::vector<std::vector<Action>> run_lists(const PipelineShape& shape,
                                           const std::vector<std::vector<Action>>& lists);

// One chunk a stage, whatever can run: backward, else forward within most_in_flight, else weights.
std::vector<std::vector<Action>> run_greedily(const PipelineShape& shape);

}  // namespace tessera
