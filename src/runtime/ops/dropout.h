// The dropout mask, which the bindings of dropout and attention share.
#pragma once

#include "kernels/dropout.h"
#include "runtime/binding.h"

namespace tessera::runtime {

// Returns the mask of (seed, step, key, layer). `step` is the value with the numbers of the step.
kernels::Dropout dropout_of(const BoundOp& b, double probability, int64_t key,
                            const TensorView& step);

}  // namespace tessera::runtime
