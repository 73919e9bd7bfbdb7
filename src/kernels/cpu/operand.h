// Arrays of f32, bf16 or f16 that kernels read and write.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// Returns the dtype of a view and CHECKs that it is one that kernels widen to f32 when reading.
inline DType number_type(const TensorView& v) {
  CHECK(v.dtype == DType::kF32 || v.dtype == DType::kBF16 || v.dtype == DType::kF16,
        "expected f32, bf16 or f16, got {}", name_of(v.dtype));
  return v.dtype;
}

// Returns the f32 nearest to x.
inline float rounded(double x) { return static_cast<float>(x); }

// An array to read numbers from.
struct Source {
  const void* data = nullptr;
  DType type = DType::kF32;
  Source() = default;
  Source(const TensorView& v) : data(v.data), type(number_type(v)) {}  // NOLINT: meant to convert
  Source(const void* p, DType t) : data(p), type(t) {}
  explicit operator bool() const { return data != nullptr; }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  int64_t bytes() const { return type == DType::kF32 ? 4 : 2; }  // per number
  Source operator+(int64_t elements) const { return {as<char>() + elements * bytes(), type}; }
  float operator[](int64_t i) const {
    if (type == DType::kF32) return as<float>()[i];
    return type == DType::kBF16 ? as_f32(as<BF16>()[i]) : as_f32(as<F16>()[i]);
  }
};

// An array to write numbers to, rounded to nearest.
struct Sink {
  void* data = nullptr;
  DType type = DType::kF32;
  Sink() = default;
  Sink(const TensorView& v) : data(v.data), type(number_type(v)) {}  // NOLINT
  Sink(void* p, DType t) : data(p), type(t) {}
  explicit operator bool() const { return data != nullptr; }
  operator Source() const { return {data, type}; }  // NOLINT
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t bytes() const { return type == DType::kF32 ? 4 : 2; }
  Sink operator+(int64_t elements) const { return {as<char>() + elements * bytes(), type}; }
  void set(int64_t i, float x) const {
    if (type == DType::kF32)
      as<float>()[i] = x;
    else if (type == DType::kBF16)
      store_f32(x, as<BF16>()[i]);
    else
      store_f32(x, as<F16>()[i]);
  }
};

// Return the extents of a view as a matrix whose columns are its last axis.
inline int64_t columns_of(const TensorView& v) { return v.shape[-1]; }
inline int64_t rows_of(const TensorView& v) {
  return v.elements() / (columns_of(v) > 0 ? columns_of(v) : 1);
}

}  // namespace tessera::kernels
