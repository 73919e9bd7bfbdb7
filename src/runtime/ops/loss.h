// What bindings of losses share.
#pragma once

#include "runtime/binding.h"

namespace tessera::runtime {

// Where a loss is added: to the report, or nowhere (nullptr) if another rank, which has the same
// labels, adds the same.
double* loss_sum(const BoundOp& b, const TensorView& report, ValueId labels);
// What the gradient of the loss begins with: the loss scale of the step, where the op has it.
const double* loss_scale(const TensorView& step);

}  // namespace tessera::runtime
