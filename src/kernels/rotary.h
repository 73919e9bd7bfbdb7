// Rotary position embedding (Su et al. 2021) in the "rotate half" convention of GPT-NeoX and
// Hugging Face: in the first R dims of q and k, dim i turns with dim i + R/2 by the angle
// position * base^(-2i/R). v and the dims from R on stay as they are.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

struct Rotary {
  int64_t dims = 0;  // R: even, at most D
  double base = 10000.0;
  bool inverse = false;  // turns back: the gradient of the rotation
};
// The cosines and sines of every position, one row each.
int64_t rotary_workspace_bytes(int64_t positions, const Rotary& r);

// In place. A group holds its G query heads, then its key, then its value.
void rotary(const TensorView& qkv,        // [B, T, KV, G+2, D] f32 or bf16
            const TensorView& positions,  // [B, T] i32
            const Rotary& r,
            void* workspace);  // rotary_workspace_bytes(B * T, r)

}  // namespace tessera::kernels
