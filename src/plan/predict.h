// Predicts a request, and finds the minimum number of devices for a model.
#pragma once

#include <optional>

#include "compile/request.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/software.h"

namespace tessera::plan {

// Compiles all stages with the software's options and simulates them. Throws Error for an invalid
// layout.
Prediction predict(const compile::CompileRequest& request, const Hardware& hardware,
                   const Software& software, const Target& target);

// Raises the memory of each stage to that of the run's smaller steps (compile::smaller_steps).
void add_smaller_steps(Prediction& p, const compile::CompileRequest& request,
                       const Hardware& hardware, const Target& target);

// Returns the minimum number of devices (powers of two, and eighths between them) on which the
// model fits with tensor parallelism (powers of two within a node), pipeline parallelism, full
// recomputation and micro-batches of one sequence. Returns nullopt if one layer is too large for a
// node.
struct LeastDevices {
  int64_t devices = 0, tensor = 1, pipeline = 1;
  int64_t peak_bytes = 0;
};
std::optional<LeastDevices> least_devices(const compile::CompileRequest& request,
                                          const Hardware& hardware, const Software& software,
                                          const Target& target);

// Returns the target of a cluster of accelerators: weights are read in place (not packed) and
// collectives run in place; the fused head holds the logits of one chunk of tokens, in f32 and in
// the dtype of the weights.
Target cluster_target();

}  // namespace tessera::plan
