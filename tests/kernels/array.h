// Tensors for kernel tests: owned, filled with repeatable numbers, read as doubles.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

class Array {
 public:
  Array() = default;
  explicit Array(Shape shape, DType dtype = DType::kF32)
      : dtype_(dtype),
        shape_(std::move(shape)),
        bytes_(static_cast<size_t>(shape_.elements() * size_of(dtype))) {}

  // Uniform in [-scale, scale).
  static Array random(const Shape& shape, uint64_t seed, DType dtype = DType::kF32,
                      double scale = 1) {
    Array a(shape, dtype);
    for (int64_t i = 0; i < a.size(); ++i) {
      uint64_t h = (static_cast<uint64_t>(i) + 1 + (seed << 32)) * 0x9e3779b97f4a7c15ull;
      h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9ull;
      a.set(i, scale * (static_cast<double>((h ^ (h >> 32)) >> 11) * 0x1p-52 - 1.0));
    }
    return a;
  }
  static Array full(const Shape& shape, double value, DType dtype = DType::kF32) {
    Array a(shape, dtype);
    for (int64_t i = 0; i < a.size(); ++i) a.set(i, value);
    return a;
  }

  int64_t size() const { return shape_.elements(); }
  const Shape& shape() const { return shape_; }
  void* data() const { return const_cast<std::byte*>(bytes_.data()); }
  TensorView view() const { return {data(), dtype_, shape_}; }
  operator TensorView() const { return view(); }  // NOLINT: what kernels take
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }

  double at(int64_t i) const {
    switch (dtype_) {
      case DType::kF32:
        return static_cast<double>(as<float>()[i]);
      case DType::kBF16:
        return static_cast<double>(static_cast<float>(as<BF16>()[i]));
      case DType::kF16:
        return static_cast<double>(static_cast<float>(as<F16>()[i]));
      case DType::kI32:
        return as<int32_t>()[i];
      case DType::kU8:
        return as<uint8_t>()[i];
      default:
        return static_cast<double>(as<int64_t>()[i]);
    }
  }
  void set(int64_t i, double x) {
    switch (dtype_) {
      case DType::kF32:
        as<float>()[i] = static_cast<float>(x);
        break;
      case DType::kBF16:
        as<BF16>()[i] = BF16(static_cast<float>(x));
        break;
      case DType::kF16:
        as<F16>()[i] = F16(static_cast<float>(x));
        break;
      case DType::kI32:
        as<int32_t>()[i] = static_cast<int32_t>(x);
        break;
      default:
        as<int64_t>()[i] = static_cast<int64_t>(x);
    }
  }
  bool same_bits(const Array& o) const {
    return size() == o.size() &&
           std::memcmp(data(), o.data(), static_cast<size_t>(view().bytes())) == 0;
  }

 private:
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

// |a - b| / |b| over all elements.
inline double distance(const Array& a, const std::vector<double>& b) {
  EXPECT_EQ(static_cast<size_t>(a.size()), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double x = a.at(static_cast<int64_t>(i)) - b[i];
    difference += x * x;
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1));
}

// How far a result in this type may be from exact, norm-wise.
inline double tolerance(DType t) {
  return t == DType::kBF16 ? 4e-3 : (t == DType::kF16 ? 5e-4 : 1e-6);
}

// A workspace that fails the test if a kernel writes beyond its end.
class Workspace {
 public:
  explicit Workspace(int64_t bytes)
      : size_(static_cast<size_t>(bytes)), bytes_(size_ + kGuard, std::byte{0x5a}) {}
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    for (size_t i = 0; i < kGuard; ++i) {
      if (bytes_[size_ + i] != std::byte{0x5a}) {
        ADD_FAILURE() << "a kernel wrote beyond its workspace of " << size_ << " bytes";
        return;
      }
    }
  }
  operator void*() { return bytes_.data(); }  // NOLINT

 private:
  static constexpr size_t kGuard = 256;
  size_t size_;
  std::vector<std::byte> bytes_;
};

// Runs a kernel on the CPU with the workspace that it asks for, and no more.
template <class Args>
void compute(const Args& args, int threads = 1) {
  Workspace workspace(workspace_bytes(Cpu(), args, threads));
  launch(Cpu(), {.workspace = workspace, .threads = threads}, args);
}

// Runs f once for every instruction set that the kernels are built for and this CPU has.
template <class F>
void for_every_target(const F& f) {
  const int64_t supported = hwy::SupportedTargets();
  for (const int64_t target : {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SCALAR}}) {
    if ((supported & target) == 0 && target != int64_t{HWY_SCALAR}) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::GetChosenTarget().Update(target);
    f();
  }
  hwy::GetChosenTarget().DeInit();
}

// Runs f(threads), which returns an Array, with one thread and with more, and expects equal bits.
template <class F>
void expect_same_for_any_threads(const F& f) {
  const Array one = f(1);
  for (const int threads : {2, 3}) {
    EXPECT_TRUE(one.same_bits(f(threads))) << "with " << threads << " threads";
  }
}

}  // namespace tessera::kernels
