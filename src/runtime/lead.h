// Which transfers may start while the one before them in their queue is still under way.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tessera::runtime {

// Of each call: it ends with its only transfer, and shares no byte, frames and scratch alike, with
// the call before it in its queue that either writes. What a queue promises, first in, first out,
// holds then for all that can be seen of it.
IdVector<CallId, bool> calls_that_may_lead(const Program& program);
// The same for the ops of inner queues of a segment: both communicate, and share no byte that
// either writes.
std::vector<bool> ops_that_may_lead(const Program& program, const Segment& segment);

struct MayLead {
  explicit MayLead(const Program& program);
  IdVector<CallId, bool> calls;
  IdVector<SegmentId, std::vector<bool>> ops;
};

}  // namespace tessera::runtime
