// Dropout with a mask that is a function of (key, global sample, element of the sample) only.
// Element e of sample s is kept if uniform(word e % 4 of Philox{key}.block(e / 4, s)) >= p, so the
// mask is the same for every layout and number of threads.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

struct Dropout {
  float probability = 0;  // drop probability p; 0: no dropout
  uint64_t key = 0;       // hash of (seed, step, op, layer), or of the op only if these are given:
  const double *seed = nullptr, *step = nullptr;  // in the kernel's device memory
  int64_t layer = 0;
};

// Returns the complete key, for CPU kernels.
inline uint64_t mask_key(const Dropout& d) {
  if (d.seed == nullptr) return d.key;
  const auto seed = static_cast<uint64_t>(*d.seed), step = static_cast<uint64_t>(*d.step);
  const uint64_t layer = d.layer + 1;
  return Philox{d.key ^ (seed * 0x9E3779B97F4A7C15ull)}.word((step << 16) | layer);
}

// The position of a local [B, T, F] in the global [.., rows, width] of each sample:
// its element (t, f) is e = (first_row + t) * width + first_column + f.
struct DropoutWindow {
  int64_t first_row = 0;
  int64_t first_column = 0;
  int64_t width = 0;  // 0: F
};

// y = kept ? x / (1 - p) : 0. It is its own gradient (dx from dy).
struct DropoutArgs {
  TensorView x;        // [B, T, F] f32, bf16 or f16
  TensorView samples;  // [B] i64, global sample numbers
  Dropout dropout;
  TensorView y;  // [B, T, F]  written; may alias x
  DropoutWindow window = {};
  TensorView mask = {};  // [B, T, F] u8  written: 1 for kept elements; or none
};
void launch(Cpu, const Launch&, const DropoutArgs&);
void launch(Gpu, const Launch&, const DropoutArgs&);

// dx = mask ? dy / (1 - p) : 0
struct DropoutGradArgs {
  TensorView dy;    // any shape, f32, bf16 or f16
  TensorView mask;  // the same, u8
  float probability = 0;
  TensorView dx;  // the same  written; may alias dy
};
void launch(Cpu, const Launch&, const DropoutGradArgs&);
void launch(Gpu, const Launch&, const DropoutGradArgs&);

}  // namespace tessera::kernels
