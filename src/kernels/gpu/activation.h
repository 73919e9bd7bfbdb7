// Activations and their slopes (kernels/gelu.h, kernels/gated_activation.h) in f32.
#pragma once

#include <gpu_runtime.h>

#include <cstdint>

namespace tessera::kernels::gpu {

enum class Activation : uint8_t { kSilu, kErf, kTanh };

struct ValueAndSlope {
  float y, slope;
};

// Returns y = u s and y' = s + u s (1 - s) z', with s the logistic function of z and rest = 1 - s.
__device__ inline ValueAndSlope logistic(float u, float z, float dz) {
  const float e = expf(-z), s = 1.0f / (1.0f + e);
  const float rest = isinf(e) ? 1.0f : e * s;  // 1 - s without cancellation
  const float y = u * s;
  return {y, s + y * rest * dz};
}

__device__ inline ValueAndSlope activate(Activation a, float u) {
  if (a == Activation::kSilu) return logistic(u, u, 1.0f);
  if (a == Activation::kTanh) {
    constexpr float kRoot = 2 * 0.797884561f, kCube = 0.044715f;
    const float u2 = fminf(1e4f, u * u);  // avoids 0 * infinity
    return logistic(u, kRoot * u * (u2 * kCube + 1.0f), kRoot * (u2 * (3 * kCube) + 1.0f));
  }
  const float phi = 0.5f * erfcf(-u * 0.707106781f);
  return {u * phi, phi + u * 0.398942280f * expf(-0.5f * u * u)};
}

}  // namespace tessera::kernels::gpu
