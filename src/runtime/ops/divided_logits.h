// The columns of the logits that this rank has, which the ops of vocabulary-parallel losses share.
#pragma once

#include "kernels/divided_cross_entropy.h"
#include "runtime/binding.h"

namespace tessera::runtime {

// `z` contains the logits: it is the op's first input, or the buffer that this was copied to.
kernels::DividedLogits divided_logits(const BoundOp& b, const TensorView& z, double soft_cap);

}  // namespace tessera::runtime
