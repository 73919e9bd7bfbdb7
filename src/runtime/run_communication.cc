// Ops that change the place of a value.
#include "base/error.h"
#include "runtime/bound_op.h"

namespace tessera {

void run_communication(const BoundOp& b) { CHECK(false, "{}: no communicator", b.op->origin); }
void run_slice(const BoundOp& b) { CHECK(false, "{}: slice", b.op->origin); }
void run_pad(const BoundOp& b) { CHECK(false, "{}: pad", b.op->origin); }

}  // namespace tessera
