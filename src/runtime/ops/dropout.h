// The mask of a dropout, which attention has too.
#pragma once

#include "kernels/dropout.h"
#include "runtime/binding.h"

namespace tessera::runtime {

// The mask of (seed, step, key, layer); `step` is the value of the step's numbers.
kernels::Dropout dropout_of(const BoundOp& b, double probability, int64_t key,
                            const TensorView& step);

}  // namespace tessera::runtime
