// Rows of f32, bf16 or f16 as kernels read and write them.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// The types that kernels compute with, widened to f32 as they are read.
inline DType number_type(const TensorView& v) {
  CHECK(v.dtype == DType::kF32 || v.dtype == DType::kBF16 || v.dtype == DType::kF16,
        "a kernel for f32, bf16 or f16 got {}", name_of(v.dtype));
  return v.dtype;
}

// One number, and its rounding to nearest.
inline float read_number(const void* data, DType type, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(data)[i];
  if (type == DType::kBF16) return static_cast<float>(static_cast<const BF16*>(data)[i]);
  return static_cast<float>(static_cast<const F16*>(data)[i]);
}
inline void write_number(void* data, DType type, int64_t i, float x) {
  if (type == DType::kF32)
    static_cast<float*>(data)[i] = x;
  else if (type == DType::kBF16)
    static_cast<BF16*>(data)[i] = BF16(x);
  else
    static_cast<F16*>(data)[i] = F16(x);
}

struct Source {
  const void* data = nullptr;
  DType type = DType::kF32;
  Source() = default;
  Source(const TensorView& v) : data(v.data), type(number_type(v)) {}  // NOLINT: meant to convert
  Source(const void* p, DType t) : data(p), type(t) {}
  explicit operator bool() const { return data != nullptr; }
  Source operator+(int64_t elements) const {
    return {static_cast<const char*>(data) + elements * bytes(), type};
  }
  int64_t bytes() const { return type == DType::kF32 ? 4 : 2; }  // of a number
  float operator[](int64_t i) const { return read_number(data, type, i); }
};

struct Sink {
  void* data = nullptr;
  DType type = DType::kF32;
  Sink() = default;
  Sink(const TensorView& v) : data(v.data), type(number_type(v)) {}  // NOLINT
  Sink(void* p, DType t) : data(p), type(t) {}
  explicit operator bool() const { return data != nullptr; }
  operator Source() const { return {data, type}; }  // NOLINT
  Sink operator+(int64_t elements) const {
    return {static_cast<char*>(data) + elements * bytes(), type};
  }
  int64_t bytes() const { return type == DType::kF32 ? 4 : 2; }
  void set(int64_t i, float x) const { write_number(data, type, i, x); }
};

// A view as rows of its last axis.
inline int64_t columns_of(const TensorView& v) { return v.shape[-1]; }
inline int64_t rows_of(const TensorView& v) {
  return v.elements() / (columns_of(v) > 0 ? columns_of(v) : 1);
}

}  // namespace tessera::kernels
