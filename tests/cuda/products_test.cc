// Algorithms of products: measured at a run's first start, kept in its folder, and read again.
#include <chrono>

#include "kernels/gpu_backend.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/cuda/device.h"
#include "tests/train/tiny_run.h"
#include "train/run_device.h"
#include "train/run_products.h"

namespace tessera {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CudaProducts : public testing::OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    config_ = train::tiny(model::Family::kLlama);
    config_.run.directory = folder_.path().string();
    config_.run.device = config::Device::kCuda;
  }
  // Of a start: what it takes, and what it says.
  std::string start(std::vector<std::string>& said) {
    const std::unique_ptr<runtime::PreparedKernels> kernels =
        train::resolve_device(config_, *comm::self_world()).kernels(1);
    const auto world = comm::self_world();
    said.clear();
    train::share_products(*kernels, config_, *world, now_s,
                          [&](const std::string& line) { said.push_back(line); });
    return kernels->backend().gpu()->choices().text();
  }
  Path file() const { return folder_.path() / "kernel_selection.txt"; }

  checkpoint::TemporaryFolder folder_;
  config::RunConfig config_;
};

TEST_F(CudaProducts, AreMeasuredOnce) {
  std::vector<std::string> said;
  const std::string first = start(said);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_GT(std::count(first.begin(), first.end(), '\n'), 10);
  EXPECT_EQ(read_file(file()), first);
  EXPECT_EQ(start(said), first);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].starts_with("autotune  0 kernels measured")) << said[0];
}

// As an earlier version named the file.
TEST_F(CudaProducts, AnOldFileIsReadAndRenamed) {
  std::vector<std::string> said;
  const std::string first = start(said);
  std::filesystem::rename(file(), folder_.path() / "products.txt");
  EXPECT_EQ(start(said), first);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].starts_with("autotune  0 kernels measured")) << said[0];
  EXPECT_EQ(read_file(file()), first);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "products.txt"));
}

TEST_F(CudaProducts, OfTf32StandBesideThoseOfF32) {
  std::vector<std::string> said;
  const std::string first = start(said);
  config_.run.tf32 = true;
  const std::string both = start(said);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_FALSE(said[0].starts_with("autotune  0 kernels measured")) << said[0];
  EXPECT_EQ(first.find("TF32"), std::string::npos);
  EXPECT_NE(both.find("TF32"), std::string::npos);
  start(said);
  EXPECT_TRUE(said[0].starts_with("autotune  0 kernels measured")) << said[0];
  config_.run.tf32 = false;
  EXPECT_EQ(start(said), both);
  EXPECT_TRUE(said[0].starts_with("autotune  0 kernels measured")) << said[0];
}

TEST_F(CudaProducts, ADamagedLineIsMeasuredAnew) {
  std::vector<std::string> said;
  const std::string first = start(said);
  std::string damaged = first;
  const size_t third = damaged.find('\n', damaged.find('\n') + 1) + 1;
  damaged[third] = '?';
  write_file(file(), damaged);
  const std::string again = start(said);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_TRUE(said[0].find("kernel_selection.txt:3") != std::string::npos) << said[0];
  EXPECT_TRUE(said[1].starts_with("autotune  1 kernels measured")) << said[1];
  EXPECT_EQ(std::count(again.begin(), again.end(), '\n'),
            std::count(first.begin(), first.end(), '\n'));
  EXPECT_EQ(read_file(file()), again);
}

TEST_F(CudaProducts, ProposedOnesAreNotKept) {
  config_.run.kernel_selection = config::KernelSelection::kHeuristic;
  std::vector<std::string> said;
  start(said);
  EXPECT_TRUE(said.empty());
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(CudaProducts, MeasuredOnesTrainTheSame) {
  const auto world = comm::self_world();
  auto kernels = gpu_prepared();
  train::share_products(*kernels, config_, *world, now_s, [](const std::string&) {});
  train::Trainer trainer(config_, std::move(kernels), INT64_MAX, *world, {});
  train::expect_same(train::curve_of(trainer, config_, 3), train::run(config_, 3), 1e-5);
}

}  // namespace
}  // namespace tessera
