// Gated activations of a gate and a value (kernels/gated_activation.h) and their derivatives.
#pragma once

#include <cmath>

#include "kernels/gated_activation.h"
#include "kernels/gpu/activation.h"

namespace tessera::kernels::gpu {

struct GatedValue {
  float y, by_gate, by_value;  // by_…: the derivatives
};

__device__ inline GatedValue gated(GateKind kind, float gate, float value) {
  if (kind == GateKind::kClamped) {
    // A NaN passes the comparisons.
    const bool high = gate > kGateLimit, far = fabsf(value) > kGateLimit;
    const float g = high ? kGateLimit : gate;
    const float factor = (far ? copysignf(kGateLimit, value) : value) + 1.0f;
    const ValueAndSlope v = logistic(g, kGateSlope * g, kGateSlope);
    return {v.y * factor, high ? 0.0f : factor * v.slope, far ? 0.0f : v.y};
  }
  const Activation act = kind == GateKind::kSilu  ? Activation::kSilu
                         : kind == GateKind::kErf ? Activation::kErf
                                                  : Activation::kTanh;
  const ValueAndSlope v = activate(act, gate);
  return {v.y * value, value * v.slope, v.y};
}

}  // namespace tessera::kernels::gpu
