// Memory and views of it. A TensorView is dense and row-major and does not own its memory, which
// belongs to a HostBuffer with a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/shape.h"

namespace tessera {

// Convert a number of any floating-point type to f32, and round it back to that type.
inline float as_f32(float x) { return x; }
inline float as_f32(BF16 x) { return static_cast<float>(x); }
inline float as_f32(F16 x) { return static_cast<float>(x); }
inline void store_f32(float x, float& to) { to = x; }
inline void store_f32(float x, BF16& to) { to = BF16(x); }
inline void store_f32(float x, F16& to) { to = F16(x); }

// Returns the address of element i of an array.
inline std::byte* element(void* data, DType type, int64_t i) {
  return static_cast<std::byte*>(data) + i * size_of(type);
}
inline const std::byte* element(const void* data, DType type, int64_t i) {
  return static_cast<const std::byte*>(data) + i * size_of(type);
}

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
  std::byte* at(int64_t i) const { return element(data, dtype, i); }
  // Return the elements with a static type. CHECK that the view has this type.
  float* f32() const;
  BF16* bf16() const;
  explicit operator bool() const { return data != nullptr; }
};

// Page-aligned anonymous memory, initialized to zero and returned to the system by the destructor.
// The constructor throws Error if the system cannot provide the memory.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(std::string name, int64_t bytes);
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  // Touches every page, so that all page faults occur at the start of a run.
  void touch(int threads) const;

 private:
  std::string name_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tessera
