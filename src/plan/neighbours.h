// What could be asked for instead of a run: one knob moved, or two where the second makes room for
// the first.
#pragma once

#include <string>
#include <vector>

#include "compile/request.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/software.h"

namespace tessera::plan {

// The request with other keys of the run file: "layout.tensor=4 layout.data=2".
struct Neighbour {
  std::string keys;
  compile::CompileRequest request;
};

// One knob moved, on as many devices and with the same global batch: tensor, pipeline and data
// ranks against each other, micro-batch, recomputation, ZeRO, interleaving, sequence parallelism.
// `ramp`: batches of earlier steps, which data × micro of each divides too.
std::vector<Neighbour> neighbours(const compile::CompileRequest& request,
                                  const std::vector<int64_t>& ramp = {});

struct Tried {
  std::string keys;
  Prediction prediction;
};

// Neighbours that can be compiled, fit and take less than `below_s`, the fastest first. Where the
// run itself or twice its micro-batch does not fit, also these with the fewest layers of each stage
// whose activations are computed again, or wait in the host's memory, so that they do (sparing.h).
// Those whose proved bounds (search_bound.h) say that they do not fit or take longer are never
// compiled.
std::vector<Tried> try_neighbours(const compile::CompileRequest& request, const Hardware& hardware,
                                  const Software& software, const Target& target, double below_s,
                                  const std::vector<int64_t>& ramp = {});

// ---- What makes a run fit that does not: the fewest layers of each stage whose activations are
// computed again (`layout.recompute=full:N`), or wait in the host's memory
// (`layout.offload=activations:N`), or optimizer state in the host's memory.

// For each of the first two, the run with the least N that fits, by its compiled programs; none
// where it fits as it is, or not with all layers. Then the run with `layout.offload=optimizer`, or
// if that does not fit, `activations+optimizer`. The least is found by halving, so where a packing
// with more layers happens to need more, another that fits with one layer less may be passed over.
// The runs with offload only on machines of which host_bytes_per_s is known.
std::vector<Neighbour> sparing(const Neighbour& run, const Hardware& hardware,
                               const Software& software, const Target& target);

}  // namespace tessera::plan
