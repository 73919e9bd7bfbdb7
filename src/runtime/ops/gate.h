// Converts the gate of an op to that of a kernel.
#pragma once

#include "ir/ops/gated_activation.h"
#include "kernels/gated_activation.h"

namespace tessera::runtime {

inline kernels::GateKind gate_of(GateForm form) {
  if (form == GateForm::kSilu) return kernels::GateKind::kSilu;
  return form == GateForm::kErf ? kernels::GateKind::kErf : kernels::GateKind::kTanh;
}

}  // namespace tessera::runtime
