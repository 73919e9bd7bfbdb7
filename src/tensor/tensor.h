// Memory and views of it. A TensorView owns nothing and is dense and row-major; its owner is a
// Buffer with a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"

namespace tessera {

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * size_of(dtype); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  float* f32() const {
    CHECK(dtype == DType::kF32, "a view of {} is read as f32", name_of(dtype));
    return as<float>();
  }
  BF16* bf16() const {
    CHECK(dtype == DType::kBF16, "a view of {} is read as bf16", name_of(dtype));
    return as<BF16>();
  }
  explicit operator bool() const { return data != nullptr; }
};

// Page-aligned anonymous memory, zero at first touch, returned to the system when it dies.
// Throws Error if the system refuses.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::string name, int64_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  // Touches every page with all threads, so that a run pays for its memory once, at the start.
  void touch() const;

 private:
  std::string name_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tessera
