// All block passes of a request, in the order they run.
//   before  the model's forward, as its family writes it: no type, place or gradient
//   after   for expand(): types by the precision, a sharding for each value with the conversions
//           between them, the backward of each block, recomputation and fusions
#pragma once

#include "compile/request.h"
#include "ir/program.h"

namespace tessera {

// The model's forward with what fine-tuning changes in it: adapters, frozen weights.
Graph tuned_model(const CompileRequest& request);

// Throws Error for what a pass cannot do, as passes.h says.
Graph block_passes(const CompileRequest& request, const Recompute& recompute);

}  // namespace tessera
