// Renders a step's pipeline over time, one row per stage: the actions of pipeline_actions(), if
// messages take no time.
//
//   1f1b: 2 stages, 3 micro-batches, 12 units of time, 25 % of it idle
//   0 F0 F1       B0--- F2 B1---    B2---
//   1    F0 B0--- F1 B1--- F2 B2---
//
// F forward, B backward, W the weight-gradient part of the backward, each with its micro-batch;
// with several chunks per stage, followed by the chunk as a letter (F3b: the second).
#pragma once

#include <string>

#include "compile/schedule/pipeline.h"

namespace tessera::compile {

std::string timeline_text(const PipelineShape& shape);

// Returns a complete SVG image; every action has its description as a tooltip.
std::string timeline_svg(const PipelineShape& shape);

}  // namespace tessera::compile
