// What makes a run fit that does not: the fewest layers of each stage whose activations are
// computed again (`layout.recompute=full:N`), or wait in the host's memory
// (`layout.offload=activations:N`), or optimizer state in the host's memory.
#pragma once

#include <vector>

#include "ir/target.h"
#include "plan/neighbours.h"

namespace tessera {

// For each of the first two, the run with the least N that fits, by its compiled programs; none
// where it fits as it is, or not with all layers. Then the run with `layout.offload=optimizer`, or
// if that does not fit, `activations+optimizer`. The least is found by halving, so where a packing
// with more layers happens to need more, another that fits with one layer less may be passed over.
// The runs with offload only on machines of which host_bytes_per_s is known.
std::vector<Neighbour> sparing(const Neighbour& run, const Hardware& hardware,
                               const Software& software, const Target& target);

}  // namespace tessera
