// Over which axes of the mesh the sums of a program go in the end: from its weights alone, without
// looking at its communication, which check_sums.cc compares with it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

// Groups along one axis each, or of the stages that share a weight.
using Axes = std::set<GroupRef>;

Axes axes_of(const GroupRef& group);      // a group along several axes as one group for each
std::string axes_text(const Axes& axes);  // "shard+tensor"

struct SumAxes {
  IdVector<FrameKindId, Axes> needed;  // empty for what is no sum
  std::set<FrameKindId> measures;      // that Adafactor writes of each rank's own part
};
SumAxes sum_axes(const Program& p);

}  // namespace tessera
