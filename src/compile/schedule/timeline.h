// A step's pipeline drawn over time, a row a stage: what pipeline_actions() plans where messages
// are free.
//
//   1f1b: 2 stages, 3 micro-batches, 12 units of time, 25 % of it idle
//   0 F0 F1       B0--- F2 B1---    B2---
//   1    F0 B0--- F1 B1--- F2 B2---
//
// F forward, B backward, W the weights' part of it, each with its micro-batch; with several chunks
// a stage, the chunk as a letter behind it (F3b: the second).
#pragma once

#include <string>

#include "compile/schedule/pipeline.h"

namespace tessera::compile {

std::string timeline_text(const PipelineShape& shape);

// An image that stands alone; every action names itself when pointed at.
std::string timeline_svg(const PipelineShape& shape);

}  // namespace tessera::compile
