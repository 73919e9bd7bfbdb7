// Which ops of a segment wait for ops of other queues.
#pragma once

#include <vector>

#include "ir/op.h"
#include "ir/value.h"

namespace tessera {

// Sets Op::after: for each other queue the last earlier op that is in conflict on a value (see
// in_conflict), unless the op comes after it anyway. Bytes of scratch do not count: layout_scratch
// only lets values share bytes that are already ordered.
void find_op_waits(std::vector<Op>& ops, ValueSpan values);

}  // namespace tessera
