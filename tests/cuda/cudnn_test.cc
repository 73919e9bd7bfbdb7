// What cuDNN takes for an H100, asked where none is: the card is described to it, and a library in
// the driver's place (driver/driver.cc) takes the code that it makes. Nothing runs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/gpu/cudnn.h"

namespace tessera {
namespace {

using kernels::AttentionShape;
using kernels::CudaDnn;
using kernels::gpu::DnnAttention;
using kernels::gpu::DnnParts;

// As cuDNN describes a card itself, with the figures of NVIDIA's data sheet and of its driver.
constexpr std::string_view kH100 = R"({
  "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 132, "totalGlobalMem": 85520809984, "l2CacheSize": 52428800,
  "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "warpSize": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1})";

class Cudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    // Whoever asks for libcuda.so.1 from now on has this one, unless the driver was there first.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr) {
      ASSERT_NE(dlopen(TESSERA_DRIVER, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    }
    try {
      dnn_ = std::make_unique<CudaDnn>(kH100, 90);
    } catch (const Error& e) {
      if (std::string(e.what()).find("is not installed") == std::string::npos) throw;
      GTEST_SKIP() << e.what();
    }
    ASSERT_GE(dnn_->version(), 90000);
  }

  // Every plan that would be measured is made.
  void expect_taken(AttentionShape shape, int64_t most_workspace) {
    for (const bool gradient : {false, true}) {
      shape.gradient = gradient;
      SCOPED_TRACE(kernels::attention_text(shape));
      DnnAttention attention(DnnParts::whole(shape).run_shape(), *dnn_);
      ASSERT_FALSE(attention.plans().empty());
      for (size_t i = 0; i < attention.plans().size(); ++i) {
        SCOPED_TRACE(attention.plans()[i]);
        attention.build(i);
        const int64_t bytes = attention.workspace_bytes(i);
        EXPECT_GE(bytes, 0);
        EXPECT_LE(bytes, gradient ? most_workspace : int64_t{1} << 20);
      }
    }
  }

  std::unique_ptr<CudaDnn> dnn_;
};

constexpr int64_t kMib = 1 << 20;

TEST_F(Cudnn, TakesGpt2) {
  expect_taken({.b = 16, .t = 1024, .s = 1024, .kv = 12, .g = 1, .d = 64, .scale = 0.125f},
               400 * kMib);
  expect_taken({.b = 4, .t = 1024, .s = 1024, .kv = 25, .g = 1, .d = 64, .scale = 0.125f},
               256 * kMib);
}

TEST_F(Cudnn, TakesPythia) {
  expect_taken({.b = 2, .t = 2048, .s = 2048, .kv = 16, .g = 1, .d = 128, .scale = 0.088f},
               300 * kMib);
}

TEST_F(Cudnn, TakesLlamaOfLongSequences) {
  expect_taken({.b = 1, .t = 8192, .s = 8192, .kv = 32, .g = 1, .d = 64, .scale = 0.125f},
               4200 * kMib);
  expect_taken({.b = 2, .t = 8192, .s = 8192, .kv = 8, .g = 4, .d = 64, .scale = 0.125f},
               4200 * kMib);
}

TEST_F(Cudnn, FewerHeadsARunNeedLessWorkspace) {
  AttentionShape shape = {.b = 1, .t = 8192, .s = 8192, .kv = 32, .g = 1, .d = 64, .scale = 0.125f};
  shape.gradient = true;
  const DnnParts parts = DnnParts::whole(shape).smaller(4.2);
  EXPECT_EQ(parts.kv, 4);
  DnnAttention attention(parts.run_shape(), *dnn_);
  attention.build(0);
  EXPECT_LE(attention.workspace_bytes(0), 1024 * kMib);
}

TEST_F(Cudnn, TakesLengthsAndWidthsThatAreOdd) {
  expect_taken({.b = 2, .t = 1000, .s = 1000, .kv = 5, .g = 1, .d = 80, .scale = 0.1f}, 64 * kMib);
  expect_taken({.b = 2, .t = 70, .s = 70, .kv = 2, .g = 3, .d = 96, .scale = 0.1f}, kMib);
}

TEST_F(Cudnn, TakesAttentionAcrossInF16) {
  AttentionShape shape = {.b = 4, .t = 512, .s = 600, .kv = 12, .g = 1, .d = 64};
  shape.dtype = DType::kF16;
  shape.apart = true;
  shape.causal = false;
  expect_taken(shape, 64 * kMib);
  shape.kv = 4;
  shape.g = 3;
  expect_taken(shape, 64 * kMib);
}

TEST_F(Cudnn, TakesDocuments) {
  AttentionShape shape = {.b = 4, .t = 1024, .s = 1024, .kv = 12, .g = 1, .d = 64, .scale = 0.125f};
  shape.documents = true;
  expect_taken(shape, 128 * kMib);
  shape.causal = false;
  expect_taken(shape, 128 * kMib);
  shape.causal = true;
  shape.kv = 8;
  shape.g = 4;
  shape.d = 128;
  expect_taken(shape, 128 * kMib);
}

TEST_F(Cudnn, TakesPadding) {
  AttentionShape shape = {.b = 4, .t = 128, .s = 512, .kv = 12, .g = 1, .d = 64};
  shape.apart = true;
  shape.causal = false;
  shape.padding = true;
  expect_taken(shape, 128 * kMib);
}

TEST_F(Cudnn, SaysWhyItRefuses) {
  try {
    const DnnAttention attention(DnnParts::whole({.b = 1, .t = 64, .s = 64, .d = 60}).run_shape(),
                                 *dnn_);
    FAIL() << "rows of 60 numbers were taken: " << attention.plans()[0];
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("cuDNN cannot ")) << e.what();
  }
  EXPECT_THROW(CudaDnn("no card", 90), Error);
}

}  // namespace
}  // namespace tessera
