// The attributes of losses and their columns of logits in the form that kernels read.
#pragma once

#include "ir/ops/preference.h"
#include "kernels/preference.h"
#include "kernels/vocab_parallel_cross_entropy.h"
#include "runtime/binding.h"

namespace tessera::runtime {

// The loss of pairs of answers.
kernels::PreferenceForm form_of(const PreferenceTerms& terms);

// The columns of the logits that this rank has, of vocabulary-parallel losses. `z` contains the
// logits: it is the op's first input, or the buffer that this was copied to.
kernels::DividedLogits divided_logits(const BoundOp& b, const TensorView& z, double soft_cap);

}  // namespace tessera::runtime
