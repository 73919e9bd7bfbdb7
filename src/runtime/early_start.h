// Finds the transfers that may start before the previous one of their queue completes.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tessera::runtime {

// Returns for each call whether its transfer may start early: the transfer is its only one and its
// last op, and the call and the previous call of its queue share no byte of buffers or scratch that
// either of them writes. Then the queue still appears to be first in, first out.
IdVector<CallId, bool> calls_that_may_start_early(const Program& program);
// Returns the same for the ops of a segment's inner queues: an op and the previous op of its queue
// both communicate, and share no byte that either of them writes.
std::vector<bool> ops_that_may_start_early(const Program& program, const Segment& segment);

struct EarlyStarts {
  explicit EarlyStarts(const Program& program);
  IdVector<CallId, bool> calls;
  IdVector<SegmentId, std::vector<bool>> ops;
};

}  // namespace tessera::runtime
