// Ops that change the place of a value.
#include "base/error.h"
#include "runtime/bound_op.h"

namespace tessera {

void run_communication(const BoundOp& b) { CHECK(false, "{}: no communicator", b.op->origin); }

}  // namespace tessera
