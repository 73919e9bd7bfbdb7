// cuDNN's attention on a device against our own kernels, plan by plan, in the shapes of models: as
// a run's first start tries it. Says what each takes.
#include <chrono>

#include "base/error.h"
#include "kernels/gpu/attention_trial.h"
#include "tests/cuda/device.h"

namespace tessera::testing {
namespace {

using kernels::AttentionShape;
using kernels::CudaDnn;
using kernels::gpu::AttentionTrial;
using kernels::gpu::DnnParts;
using kernels::gpu::DnnRuns;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CudaDnnAttention : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    try {
      dnn_ = std::make_unique<CudaDnn>();
      std::printf("cuDNN %d\n", static_cast<int>(dnn_->version()));
    } catch (const Error& e) {
      GTEST_SKIP() << "no cuDNN: " << e.what();
    }
  }

  void expect_same(AttentionShape shape) {
    for (const bool gradient : {false, true}) {
      shape.gradient = gradient;
      const std::string text = kernels::attention_text(shape);
      const DnnParts parts = DnnParts::whole(shape);
      const DnnRuns runs(shape.t > 4096 ? parts.smaller(4.2) : parts, *dnn_);
      AttentionTrial trial(shape);
      std::vector<size_t> good;
      for (size_t i = 0; i < runs.dnn->plans().size(); ++i) {
        runs.dnn->build(i);
        const std::string why = trial.fault(runs, i);
        // A run does not choose such a plan, so this is not a failure.
        if (why == kernels::gpu::kOtherBits) {
          std::printf("%s: %s is not deterministic\n", text.c_str(), runs.dnn->plans()[i].c_str());
          continue;
        }
        EXPECT_EQ(why, "") << text << ": " << runs.dnn->plans()[i];
        if (why.empty()) good.push_back(i);
      }
      const double own = trial.fastest(nullptr, {}, now_s).seconds;
      std::printf("%s: own %.1f us", text.c_str(), 1e6 * own);
      for (const size_t i : good) {
        const auto one = trial.fastest(&runs, {i}, now_s);
        std::printf(one.index == 1 ? ", %s %.1f us" : ", %s not faster",
                    runs.dnn->plans()[i].c_str(), 1e6 * one.seconds);
      }
      std::printf("\n");
    }
  }

  std::unique_ptr<CudaDnn> dnn_;
};

TEST_F(CudaDnnAttention, OfModels) {
  expect_same({.b = 16, .t = 1024, .s = 1024, .kv = 12, .g = 1, .d = 64, .scale = 0.125f});
  expect_same({.b = 4, .t = 1024, .s = 1024, .kv = 25, .g = 1, .d = 64, .scale = 0.125f});
  expect_same({.b = 2, .t = 2048, .s = 2048, .kv = 16, .g = 1, .d = 128, .scale = 0.088f});
}
TEST_F(CudaDnnAttention, OfLongSequences) {
  expect_same({.b = 1, .t = 8192, .s = 8192, .kv = 32, .g = 1, .d = 64, .scale = 0.125f});
  expect_same({.b = 1, .t = 8192, .s = 8192, .kv = 8, .g = 4, .d = 64, .scale = 0.125f});
}
TEST_F(CudaDnnAttention, OfOddSizes) {
  expect_same({.b = 2, .t = 1000, .s = 1000, .kv = 5, .g = 1, .d = 80, .scale = 0.1f});
  expect_same({.b = 2, .t = 70, .s = 70, .kv = 2, .g = 3, .d = 96, .scale = 0.1f});
}
TEST_F(CudaDnnAttention, AcrossInF16) {
  AttentionShape shape = {.b = 4, .t = 512, .s = 600, .kv = 12, .g = 1, .d = 64};
  shape.dtype = DType::kF16;
  shape.apart = true;
  shape.causal = false;
  expect_same(shape);
  shape.kv = 4;
  shape.g = 3;
  expect_same(shape);
  shape.padding = true;
  expect_same(shape);
}
TEST_F(CudaDnnAttention, WithinDocuments) {
  AttentionShape shape = {.b = 4, .t = 1024, .s = 1024, .kv = 12, .g = 1, .d = 64, .scale = 0.125f};
  shape.documents = true;
  expect_same(shape);
  shape.kv = 8;
  shape.g = 4;
  shape.d = 128;
  expect_same(shape);
}

}  // namespace
}  // namespace tessera::testing
