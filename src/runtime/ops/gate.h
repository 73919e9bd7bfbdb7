// Converts the gate of an op to that of a kernel.
#pragma once

#include "base/error.h"
#include "ir/ops/gated_activation.h"
#include "kernels/gated_activation.h"

namespace tessera::runtime {

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

}  // namespace tessera::runtime
