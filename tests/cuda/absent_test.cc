// What a build without the CUDA toolkit takes in place of its CUDA, linked here whatever is
// installed: what it lacks would be taken from the rooms, and the linker refuses to have both.
#include <gtest/gtest.h>

#include "comm/world.h"
#include "kernels/gpu_products.h"
#include "tests/train/tiny_run.h"
#include "train/run_device.h"

namespace tessera {
namespace {

TEST(WithoutCuda, RunsTakeTheCpu) {
  EXPECT_NE(why_no_gpu().find("built without CUDA"), std::string::npos);
  EXPECT_EQ(compiled_gpu_architectures(), "");
  config::RunConfig config = train::tiny(model::Family::kLlama);
  config.run.device = config::Device::kAuto;
  EXPECT_FALSE(train::resolve_device(config, *comm::self_world()).gpu);
  EXPECT_EQ(config.run.device, config::Device::kCpu);
  config.run.device = config::Device::kCuda;
  EXPECT_THROW(train::resolve_device(config, *comm::self_world()), Error);
}

TEST(WithoutCudaDeathTest, NothingElseIsThere) {
  const auto world = comm::self_world();
  EXPECT_DEATH(kernels::gpu_kernels(), "without CUDA");
  EXPECT_DEATH(kernels::GpuBlas(), "without CUDA");
  EXPECT_DEATH(comm::nccl_world(*world), "without CUDA");
}

}  // namespace
}  // namespace tessera
