// How a person asks for the next token, and the random number that chooses it. The choice itself
// is kernels/sample.h.
#pragma once

#include <cstdint>

#include "kernels/sample.h"

namespace tessera {

// Throws Error, naming the option and what it may be, where one is out of range: temperature ≥ 0,
// top_k ≥ 0, 0 < top_p ≤ 1.
void validate(const kernels::Sampling& sampling);

// The uniform number in [0, 1) for the token at `position` of sequence `sequence` under `seed`:
// the same whoever draws it and in whatever batch.
double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position);

}  // namespace tessera
