// Where a segment's short-lived values lie in its scratch.
#pragma once

#include <vector>

#include "ir/op.h"
#include "ir/program.h"
#include "ir/value.h"

namespace tessera::compile {

// Sets Op::after: for each other queue the last earlier op that is in conflict on a value (see
// in_conflict), unless the op comes after it anyway. Bytes of scratch do not count: layout_scratch
// only lets values share bytes that are already ordered.
void find_op_waits(std::vector<Op>& ops, ValueSpan values);

// Gives every value of the segment without a frame an offset, and the segment its scratch_bytes.
// Two values share bytes only if queues and Op::after let every op that touches one end before any
// that touches the other starts, so it runs after find_op_waits. Where an op may work in place
// (OpRule::in_place) and all others that touch its input come before it, output and input share
// their bytes; an input may even be where the output's frame is.
void layout_scratch(Program& program, Segment& segment, int64_t alignment);

}  // namespace tessera::compile
