// The loss of pairs of answers in the form that the kernels read.
#pragma once

#include "ir/ops/preference.h"
#include "kernels/preference.h"

namespace tessera::runtime {

kernels::PreferenceForm form_of(const PreferenceTerms& terms);

}  // namespace tessera::runtime
