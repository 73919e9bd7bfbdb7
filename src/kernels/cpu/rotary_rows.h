// Arguments of the vectorized RoPE code.
#pragma once

#include <cstdint>

#include "kernels/cpu/operand.h"

namespace tessera::kernels {

struct RotaryRows {
  Sink qkv;
  const float* table;          // [tokens, 2, half]: cosines, then sines
  int64_t kv_heads, slots, d;  // slots = G + 2; the first G + 1 are rotated
  int64_t half;                // R / 2
};

}  // namespace tessera::kernels
