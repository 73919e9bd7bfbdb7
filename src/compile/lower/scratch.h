// Assigns the short-lived values of a segment to offsets in its scratch.
#pragma once

#include <vector>

#include "ir/op.h"
#include "ir/program.h"
#include "ir/value.h"

namespace tessera::compile {

// Sets Op::after: for each other queue the last earlier op that conflicts with the op on a value
// (see in_conflict), unless another wait already orders them. Sharing bytes of scratch causes no
// wait: layout_scratch lets values share bytes only if they are already ordered.
void find_op_waits(std::vector<Op>& ops, ValueSpan values);

// Gives every value of the segment without a buffer an offset, and sets scratch_bytes of the
// segment. Two values share bytes only if queues and Op::after make every op that uses one of them
// end before any op that uses the other starts, so it runs after find_op_waits. If an op may work
// in place (OpRule::in_place) and all other ops that use its input come before it, output and input
// share their bytes; the input may also use the bytes of an output in a buffer.
void layout_scratch(Program& program, Segment& segment, int64_t alignment);

}  // namespace tessera::compile
