// Schedule pass: communication stands earlier in the issue order, so that it runs beside
// computation.
//   before  ... backward.layer 3 · reduce.layer 3 · gather.layer 2 · backward.layer 2 ...
//   after   ... gather.layer 2 · backward.layer 3 · reduce.layer 3 · backward.layer 2 ...   (calls
//   1)
//
// Gathers for one use, receives and what comes back from the host step back over at most `calls`
// compute calls; never past a call that touches the same frame, nor past another of their own kind
// on their queue. Where transfers are ordered (Program::ordered_transfers) a receive never passes
// another transfer between stages: both ends issue these in one order. Reductions and sends start
// as soon as what they carry is complete: they stand there already.
#pragma once

#include "ir/program.h"

namespace tessera {

void overlap(Program& program, int64_t calls);

}  // namespace tessera
