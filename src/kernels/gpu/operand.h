// Operands of kernels as plain data, and their division into groups for threads.
#pragma once

#include <gpu_runtime.h>

#include <cstdint>

#include "base/dtype.h"

namespace tessera::kernels::gpu {

constexpr int kGroup = 8;  // elements that a thread reads at once: 16 bytes of a 16-bit type

// Returns the number of elements of a group if `left` elements of the array remain.
__host__ __device__ constexpr int group_size(int64_t left) {
  return left <= 0 ? 0 : left < kGroup ? static_cast<int>(left) : kGroup;
}

struct Numbers {
  void* data = nullptr;
  DType type = DType::kF32;

  // Return the elements as f32 and as 16-bit numbers.
  __host__ __device__ float* f32() const { return static_cast<float*>(data); }
  __host__ __device__ uint16_t* halves() const { return static_cast<uint16_t*>(data); }
};

// Divides [rows, columns] into groups of eight adjacent elements of a row; the last group of a row
// may be shorter.
struct Groups {
  int64_t rows = 0, columns = 0;
  bool vector = false;  // 16-byte accesses: see read_group

  struct Cursor {
    int64_t row, column, at;  // at = row * columns + column
    int n;                    // number of elements
  };

  __host__ __device__ int64_t per_row() const { return (columns + kGroup - 1) / kGroup; }
  __host__ __device__ int64_t count() const { return rows * per_row(); }
  __host__ __device__ Cursor cursor(int64_t group) const {
    const int64_t row = group / per_row(), column = group % per_row() * kGroup;
    return {row, column, row * columns + column, group_size(columns - column)};
  }
};

}  // namespace tessera::kernels::gpu
