// Over which axes of the mesh the sums of a program go in the end: from its weights alone, without
// looking at its communication, which check_sums.cc compares with it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

using Axes =
    std::set<std::string>;  // names of axes; "stages:0,3" for the stages that share a weight

Axes axes_named(const std::string& over);  // of "data+tensor"
std::string axes_text(const Axes& axes);   // "data+tensor"

struct SumAxes {
  IdVector<FrameKindId, Axes> needed;  // empty for what is no sum
  std::set<FrameKindId> measures;      // that Adafactor writes of each rank's own part
};
SumAxes sum_axes(const Program& p);

}  // namespace tessera
