// Converts views to operands of kernels, and declares the sums that norm and sum kernels share.
#pragma once

#include "base/require.h"
#include "kernels/gpu/operand.h"
#include "kernels/sum.h"
#include "tensor/tensor.h"

namespace tessera::kernels::gpu {

using View = const TensorView&;

inline Numbers numbers(View v) {
  if (!v) return {};
  require(v.dtype == DType::kF32 || v.dtype == DType::kBF16 || v.dtype == DType::kF16,
          "expected f32, bf16 or f16, got another type");
  return {v.data, v.dtype};
}

inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Returns the groups of views with these extents, with 16-byte accesses if all views allow them.
template <class... V>
Groups groups_of(int64_t rows, int64_t columns, const V&... views) {
  const bool whole = columns % kGroup == 0 || rows == 1;
  return {rows, columns, whole && (aligned(views.data) && ...)};
}

inline int64_t columns_of(View v) { return v.shape[-1]; }
inline int64_t rows_of(View v) { return columns_of(v) > 0 ? v.elements() / columns_of(v) : 0; }

// out = sum of the terms and of the biases.
struct SumRows {
  Groups groups;
  int terms = 0, biases = 0;
  Numbers term[kMaxTerms], bias[kMaxTerms];
  Numbers out;
};
// Returns the operands, with 16-byte accesses if all of them allow it.
SumRows sum_rows(const SumArgs& a);

}  // namespace tessera::kernels::gpu
