// What `tessera bench --kernels` measures, in small: that each kernel runs, on both sides.
#include "measure/kernel_rates.h"

#include <chrono>
#include <set>

#include "tests/cuda/device.h"

namespace tessera::testing {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void expect_all_kernels(const kernels::Backend& device) {
  const measure::KernelSizes small = {
      .sequences = 2, .length = 16, .hidden = 24, .heads = 3, .vocabulary = 50, .logit_rows = 5};
  std::set<std::string> names;
  for (const measure::KernelRate& r : measure::measure_kernels(device, small, now_s, 0)) {
    EXPECT_TRUE(names.insert(r.name + std::string(name_of(r.type))).second) << r.name;
    EXPECT_GT(r.seconds, 0) << r.name;
    EXPECT_TRUE((r.bytes > 0) != (r.flops > 0)) << r.name;
  }
  // cuDNN's attention is there where it is faster than ours.
  std::erase_if(names, [](const std::string& n) { return n.find("by cuDNN") != n.npos; });
  EXPECT_EQ(names.size(), 30u);
  EXPECT_GT(measure::measure_copy(device, 1 << 16, now_s, 0), 0);
}

class CudaBench : public OnGpu {};

TEST_F(CudaBench, EveryKernelIsMeasured) { expect_all_kernels(gpu_prepared()->backend()); }

TEST(CpuBench, EveryKernelIsMeasured) {
  expect_all_kernels(kernels::CpuBackend(read_cpu_features(), 1));
}

}  // namespace
}  // namespace tessera::testing
