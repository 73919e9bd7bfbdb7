// From a request to its prediction, and to the fewest devices that it fits on.
#pragma once

#include <optional>

#include "compile/request.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/software.h"

namespace tessera::plan {

// Compiles all stages as the software would and simulates them. Throws Error for a layout that
// cannot be.
Prediction predict(const compile::CompileRequest& request, const Hardware& hardware,
                   const Software& software, const Target& target);

// The fewest devices (powers of two and eighths between them) on which the model fits, divided by
// tensor ranks (powers of two within a node) and stages, everything recomputed and micro-batches of
// one sequence. nullopt: on none, since one layer is too large for one node.
struct LeastDevices {
  int64_t devices = 0, tensor = 1, pipeline = 1;
  int64_t peak_bytes = 0;
};
std::optional<LeastDevices> least_devices(const compile::CompileRequest& request,
                                          const Hardware& hardware, const Software& software,
                                          const Target& target);

// Accelerators read weights as they lie (no packing) and make reductions in place; the fused head
// holds the logits of one chunk of tokens, in f32 and in the weights' type.
Target cluster_target();

}  // namespace tessera::plan
