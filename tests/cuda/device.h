// A device for tests, and memory on it.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "runtime/prepared_kernels.h"

namespace tessera::testing {

// Skips where there is no device, and says why.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
    features_ = use_gpu(0);
  }
  std::unique_ptr<runtime::PreparedKernels> gpu_prepared() const {
    return std::make_unique<runtime::PreparedKernels>(
        kernels::backend_of(CpuFeatures(), 1, features_));
  }
  GpuFeatures features_;
};

// An array that both sides have.
class Both {
 public:
  Both(DType type, Shape shape)
      : bytes_(static_cast<size_t>(shape.elements() * size_of(type) + 64)),
        device_("an array", static_cast<int64_t>(bytes_.size())),
        type_(type),
        shape_(std::move(shape)) {}

  TensorView host() { return {bytes_.data(), type_, shape_}; }
  TensorView device() const { return {device_.data(), type_, shape_}; }
  void send(Stream s) {
    copy_in_stream(s, device_.data(), bytes_.data(), host().bytes());
    synchronise(s);
  }
  // The device's numbers.
  std::vector<double> fetch(Stream s) {
    std::vector<std::byte> got(bytes_.size());
    copy_in_stream(s, got.data(), device_.data(), host().bytes());
    synchronise(s);
    return numbers({got.data(), type_, shape_});
  }
  std::vector<double> here() { return numbers(host()); }
  void set(int64_t i, double x) {
    if (type_ == DType::kF64) host().as<double>()[i] = x;
    if (type_ == DType::kF32) host().f32()[i] = static_cast<float>(x);
    if (type_ == DType::kBF16) host().bf16()[i] = BF16(static_cast<float>(x));
    if (type_ == DType::kF16) host().as<F16>()[i] = F16(static_cast<float>(x));
    if (type_ == DType::kU8) host().as<uint8_t>()[i] = static_cast<uint8_t>(x);
    if (type_ == DType::kI32) host().as<int32_t>()[i] = static_cast<int32_t>(x);
    if (type_ == DType::kI64) host().as<int64_t>()[i] = static_cast<int64_t>(x);
  }

 private:
  static std::vector<double> numbers(const TensorView& t) {
    std::vector<double> out;
    for (int64_t i = 0; i < t.elements(); ++i) {
      if (t.dtype == DType::kF64) out.push_back(t.as<double>()[i]);
      if (t.dtype == DType::kF32) out.push_back(static_cast<double>(t.f32()[i]));
      if (t.dtype == DType::kBF16)
        out.push_back(static_cast<double>(static_cast<float>(t.bf16()[i])));
      if (t.dtype == DType::kF16)
        out.push_back(static_cast<double>(static_cast<float>(t.as<F16>()[i])));
      if (t.dtype == DType::kU8) out.push_back(t.as<uint8_t>()[i]);
      if (t.dtype == DType::kI64) out.push_back(static_cast<double>(t.as<int64_t>()[i]));
    }
    return out;
  }

  std::vector<std::byte> bytes_;
  DeviceBuffer device_;
  DType type_;
  Shape shape_;
};

// Norm-wise: kernels differ in the order of their sums.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                         double bound, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  EXPECT_LE(std::sqrt(difference), bound * std::sqrt(size) + 1e-30) << what;
}

}  // namespace tessera::testing
