// Functions that the bindings of losses share.
#pragma once

#include "ir/ops/cross_entropy.h"
#include "kernels/cross_entropy.h"
#include "runtime/binding.h"

namespace tessera::runtime {

// Returns the sum in the report that the loss is added to, or nullptr if another rank with the same
// labels adds the same loss. The number of loss tokens is in the next slot.
double* loss_sum(const BoundOp& b, const TensorView& report, ValueId labels,
                 const LossTerms& terms = {});
// Returns the sum that the z-loss is added to, or nullptr as loss_sum() does, or if there is none.
double* z_loss_sum(const BoundOp& b, const TensorView& report, ValueId labels,
                   const LossTerms& terms);
kernels::LossExtras extras_of(const LossTerms& terms);
// Returns the loss scale of the step, the initial gradient of the loss; nullptr if the op has no
// `step`.
const double* loss_scale(const TensorView& step);

}  // namespace tessera::runtime
