// Arguments of kernels that several bindings make from the attributes of an op and its operands.
#pragma once

#include "base/error.h"
#include "ir/ops/cross_entropy.h"
#include "ir/ops/gated_activation.h"
#include "ir/ops/preference.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/gated_activation.h"
#include "kernels/preference.h"
#include "kernels/vocab_parallel_cross_entropy.h"
#include "runtime/binding.h"

namespace tessera::runtime {

// Converts the gate of an op to that of a kernel.
inline kernels::GateKind gate_of(GateForm form) {
  switch (form) {
    case GateForm::kSilu:
      return kernels::GateKind::kSilu;
    case GateForm::kErf:
      return kernels::GateKind::kErf;
    case GateForm::kTanh:
      return kernels::GateKind::kTanh;
    case GateForm::kClamped:
      return kernels::GateKind::kClamped;
  }
  CHECK(false, "gate {}", static_cast<int>(form));
}

// Returns the dropout mask of (seed, step, key, layer). `step` is the value with the numbers of the
// step.
kernels::Dropout dropout_of(const BoundOp& b, double probability, int64_t key,
                            const TensorView& step);

// Returns the sum in the report that the loss is added to, or nullptr if another rank with the same
// labels adds the same loss. The number of loss tokens is in the next slot.
double* loss_sum(const BoundOp& b, const TensorView& report, ValueId labels,
                 const LossTerms& terms = {});
// Returns the sum that the z-loss is added to, or nullptr as loss_sum() does, or if there is none.
double* z_loss_sum(const BoundOp& b, const TensorView& report, ValueId labels,
                   const LossTerms& terms);
kernels::LossExtras extras_of(const LossTerms& terms);
// The loss of pairs of answers.
kernels::PreferenceForm form_of(const PreferenceTerms& terms);
// The columns of the logits that this rank has, of vocabulary-parallel losses. `z` contains the
// logits: it is the op's first input, or the buffer that this was copied to.
kernels::DividedLogits divided_logits(const BoundOp& b, const TensorView& z, double soft_cap);
// Returns the loss scale of the step, the initial gradient of the loss; nullptr if the op has no
// `step`.
const double* loss_scale(const TensorView& step);

}  // namespace tessera::runtime
