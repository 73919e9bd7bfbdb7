// Warp-level tensor core instructions: multiplies 16-bit matrices of 16 x 16 and 16 x 8 with f32
// sums (PTX mma.m16n8k16, from sm_80 on), and loads their operands. With g = lane / 4 and t = 2
// (lane mod 4), a lane has these elements:
//   a [16, 16]  rows g, g + 8, g, g + 8 at columns t, t, t + 8, t + 8: a pair of adjacent columns
//   each b [16, 8]   rows t and t + 8 of column g: a pair of adjacent rows each c [16, 8]   row g
//   at columns t, t + 1, then row g + 8
#pragma once

#include <gpu_runtime.h>

#include <cstdint>

#include "base/dtype.h"

namespace tessera::kernels::gpu {

// c += a b.
template <DType kType>
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  static_assert(kType == DType::kBF16 || kType == DType::kF16);
  if constexpr (kType == DType::kBF16)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads two adjacent matrices b (together 16 x 16) from rows in shared memory: lane l gives the
// address of row l mod 16 at column 8 (l / 16), aligned to 16 bytes. b[0] and b[1] are those of the
// left matrix.
__device__ inline void load_b_of_rows(uint32_t (&b)[4], const uint16_t* row) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(at)
               : "memory");
}

}  // namespace tessera::kernels::gpu
