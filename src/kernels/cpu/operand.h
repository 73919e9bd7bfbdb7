// Rows of f32 or bf16 as kernels read and write them.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera::kernels {

struct Source {
  const void* data = nullptr;
  bool bf16 = false;
  Source() = default;
  Source(const TensorView& v) : data(v.data), bf16(is_bf16(v)) {}  // NOLINT: meant to convert
  Source(const void* p, bool low) : data(p), bf16(low) {}
  explicit operator bool() const { return data != nullptr; }
  Source operator+(int64_t elements) const {
    return {static_cast<const char*>(data) + elements * (bf16 ? 2 : 4), bf16};
  }

  static bool is_bf16(const TensorView& v) {
    CHECK(v.dtype == DType::kF32 || v.dtype == DType::kBF16, "a kernel for f32 or bf16 got {}",
          name_of(v.dtype));
    return v.dtype == DType::kBF16;
  }
};

struct Sink {
  void* data = nullptr;
  bool bf16 = false;
  Sink() = default;
  Sink(const TensorView& v) : data(v.data), bf16(Source::is_bf16(v)) {}  // NOLINT
  Sink(void* p, bool low) : data(p), bf16(low) {}
  explicit operator bool() const { return data != nullptr; }
  operator Source() const { return {data, bf16}; }  // NOLINT
  Sink operator+(int64_t elements) const {
    return {static_cast<char*>(data) + elements * (bf16 ? 2 : 4), bf16};
  }
};

// A view as rows of its last axis.
inline int64_t columns_of(const TensorView& v) { return v.shape[-1]; }
inline int64_t rows_of(const TensorView& v) {
  return v.elements() / (columns_of(v) > 0 ? columns_of(v) : 1);
}

}  // namespace tessera::kernels
