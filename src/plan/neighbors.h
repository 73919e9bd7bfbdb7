// Alternatives to a run: one knob changed, or two if the second makes the first one possible.
#pragma once

#include <string>
#include <vector>

#include "compile/request.h"
#include "ir/target.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/software.h"

namespace tessera::plan {

// A changed request, and the run-file keys that change it: "layout.tensor=4 layout.data=2".
struct Neighbor {
  std::string keys;
  compile::CompileRequest request;
};

// Returns requests that differ in one knob and have the same number of devices and the same global
// batch: exchanges between tensor, pipeline and data, expert, micro-batch, recomputation, ZeRO,
// interleaving, pipeline schedule, sequence parallelism. `ramp` has the global batches of
// batch-size warm-up, which data × micro must divide too.
std::vector<Neighbor> neighbors(const compile::CompileRequest& request,
                                const std::vector<int64_t>& ramp = {});

struct Tried {
  std::string keys;
  Prediction prediction;
};

// Returns the neighbors that compile, fit and take less than `below_s` per step, fastest first. If
// the run itself, or the run with twice the micro-batch, does not fit, its variants from
// memory_savings() are tried too. Neighbors whose proven bounds (search_bound.h) exclude them are
// not compiled.
std::vector<Tried> try_neighbors(const compile::CompileRequest& request, const Hardware& hardware,
                                 const Software& software, const Target& target, double below_s,
                                 const std::vector<int64_t>& ramp = {});

// ---- Ways to make a run fit: recompute the fewest layers per stage (`layout.recompute=full:N`),
// offload the activations of the fewest layers per stage to the host (`layout.offload=
// activations:N`), or offload the optimizer state.

// Returns variants of a run that fit, and none if the run itself fits. For recomputation and for
// activation offload, the variant has the smallest N that fits according to the compiled programs;
// it is left out if not even all layers suffice. Then follows `layout.offload=optimizer`, or, if
// that does not fit, `activations+optimizer`. N is found by bisection, so a smaller N may be missed
// where the arena does not shrink with every further layer. Offload needs a machine file with
// host_bytes_per_s.
std::vector<Neighbor> memory_savings(const Neighbor& run, const Hardware& hardware,
                                     const Software& software, const Target& target);

}  // namespace tessera::plan
