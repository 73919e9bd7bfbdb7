// Tests that need the emulated device: streams that run as early as possible, and a driver that
// returns errors.
#include <cmath>
#include <set>

#include "ir/state.h"
#include "kernels/gpu/noise.h"
#include "kernels/gpu_products.h"
#include "tests/cuda/device.h"
#include "tests/cuda/emulator/streams.h"
#include "tests/train/tiny_run.h"
#include "train/run_device.h"

namespace tessera {
namespace {

using cuda_emulator::device_conduct;

class CudaEmulated : public testing::OnGpu {
 protected:
  void SetUp() override {
    device_conduct = {};
    OnGpu::SetUp();
  }
  void TearDown() override { device_conduct = {}; }

  // The host is one step ahead where that is possible.
  train::Curve ahead(const config::RunConfig& c, int steps) const {
    const auto world = comm::self_world();
    train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
    data::BatchSource source = train::batches(c);
    trainer.initialize();
    train::Curve got;
    const auto keep = [&](const train::StepResult& r) {
      got.losses.push_back(r.loss);
      got.norms.push_back(r.grad_norm);
    };
    for (int step = 1; step <= steps; ++step) {
      if (!trainer.can_start_step(step)) {
        keep(trainer.step(step, 1e-3, source));
        continue;
      }
      trainer.prepare_step(step, 1e-3, source);
      trainer.start_step();
      if (trainer.under_way() == 2) keep(trainer.finish_step());
    }
    while (trainer.under_way() > 0) keep(trainer.finish_step());
    return got;
  }
};

// The results of a step are read after finish(); nothing that runs early may write over them.
TEST_F(CudaEmulated, D_B4_ResultsStayUntilTheyAreRead) {
  const config::RunConfig c = train::tiny(model::Family::kLlama);
  const train::Curve want = train::run(c, 7);
  device_conduct.early = true;
  const train::Curve got = ahead(c, 7);
  ASSERT_EQ(got.losses.size(), 7u);
  train::expect_same(got, want, 1e-5);
}

// The executor's own promise, without a trainer between.
TEST_F(CudaEmulated, D_B4_TheReportIsTheFinishedRuns) {
  const config::RunConfig c = train::tiny(model::Family::kGpt2);
  const train::Curve want = train::run(c, 5);
  device_conduct.early = true;
  const auto world = comm::self_world();
  train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
  data::BatchSource source = train::batches(c);
  trainer.initialize();
  for (int step = 1; step <= 3; ++step) trainer.step(step, 1e-3, source);
  trainer.prepare_step(4, 1e-3, source);
  trainer.start_step();
  trainer.prepare_step(5, 1e-3, source);
  trainer.start_step();
  const train::StepResult fourth = trainer.finish_step();
  runtime::Executor& e = trainer.engine().executor(0);
  const auto* const report = e.bound().view(e.bound().only(Role::kReport)).as<double>();
  EXPECT_EQ(report[kLossSum] / report[kLossTokens], fourth.loss);
  EXPECT_NEAR(fourth.loss, want.losses[3], 1e-5 * want.losses[3]);
  EXPECT_NEAR(trainer.finish_step().loss, want.losses[4], 1e-5 * want.losses[4]);
}

TEST_F(CudaEmulated, D_B10_PinningThatFailsLeavesNothingPinned) {
  const HostBuffer host("the host's", 8 * kPageBytes);
  const MemoryRange parts[] = {{host.data(), kPageBytes},
                               {host.data() + 2 * kPageBytes, kPageBytes},
                               {host.data() + 4 * kPageBytes, kPageBytes}};
  device_conduct.most_pinned = 2;
  EXPECT_THROW(PinnedPages("a test", parts), Error);
  EXPECT_EQ(device_conduct.last_error, gpuSuccess);
  device_conduct.most_pinned = 3;
  EXPECT_EQ(PinnedPages("a test", parts).bytes(), 3 * kPageBytes);
}

// Otherwise a library that asks for the last error would get ours.
TEST_F(CudaEmulated, D_B10_AnErrorIsForgottenWhenItIsThrown) {
  const GpuStream stream;
  GpuEvent event;
  device_conduct.last_error = gpuErrorInvalidValue;
  EXPECT_THROW(fill_in_stream(stream.get(), &event, 0, 8), Error);  // not of the device
  EXPECT_EQ(device_conduct.last_error, gpuSuccess);
  fill_in_stream(stream.get(), DeviceBuffer("a buffer", 64).data(), 0, 0);
  event.record(stream.get());
  while (!event.is_over()) EXPECT_EQ(device_conduct.last_error, gpuSuccess);
  EXPECT_EQ(device_conduct.last_error, gpuSuccess);
}

TEST_F(CudaEmulated, D_B10_ACaptureThatAnErrorLeavesIsClosed) {
  const DeviceBuffer buffer("a buffer", 64);
  const GpuStream stream;
  try {
    GpuGraph graph;
    graph.begin(stream.get());
    fill_in_stream(stream.get(), buffer.data(), 5, 64);
    throw Error("in the middle");
  } catch (const Error&) {
  }
  EXPECT_FALSE(cuda_emulator::is_capturing());
  const DeviceBuffer another("which a capture forbids", 64);
}

// A forked process cannot use the device of its parent: death tests of the device's own calls fail.
TEST_F(CudaEmulated, D_B3_AForkedProcessHasNoDevice) {
  ::testing::FLAGS_gtest_death_test_style = "fast";
  const kernels::GpuBlas blas;
  EXPECT_EXIT(
      {
        try {
          const kernels::GpuBlas another;
          std::exit(1);
        } catch (const Error&) {
          std::exit(0);
        }
      },
      ::testing::ExitedWithCode(0), "");
}

// The manual's alignment of a product's workspace; the stand-in for cuBLASLt checks every product.
TEST_F(CudaEmulated, D_B2_WorkspacesAreAligned) {
  const auto kernels = gpu_prepared();
  EXPECT_EQ(kernels->target().alignment, kernels::kBlasWorkspaceAlignment);
  for (const int64_t layers : {1, 3})
    for (const int64_t hidden : {20, 36}) {
      config::RunConfig c = train::tiny(model::Family::kGpt2);
      c.model.layers = layers;
      c.model.hidden = hidden;
      c.model.heads = 2;
      c.model.kv_heads = c.model.feed_forward = 0;
      model::derive_sizes(c.model);
      const auto world = comm::self_world();
      train::Trainer trainer(c, gpu_prepared(), INT64_MAX, *world, {});
      const Program& p = trainer.program();
      EXPECT_EQ(p.scratch_offset % kernels::kBlasWorkspaceAlignment, 0);
      for (const Segment& s : p.segments)
        for (const Op& op : s.ops) {
          if (op.workspace == kNone) continue;
          EXPECT_EQ(p[op.workspace].offset % kernels::kBlasWorkspaceAlignment, 0) << op.origin;
        }
      train::expect_same(train::curve_of(trainer, c, 2), train::run(c, 2), 1e-5);
    }
}

// Measurements are made on numbers as a model has them.
TEST_F(CudaEmulated, D_R1_NoiseIsNoZeros) {
  constexpr int64_t kN = 3 << 20;
  const GpuStream stream;
  const DeviceBuffer memory("noise", kN * 4);
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    kernels::fill_with_noise(stream.get(), memory.data(), type, kN);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < kN; ++i) {
      const auto* const at = memory.data() + i * size_of(type);
      const double x =
          type == DType::kF32 ? static_cast<double>(*reinterpret_cast<const float*>(at))
          : type == DType::kBF16
              ? static_cast<double>(static_cast<float>(*reinterpret_cast<const BF16*>(at)))
              : static_cast<double>(static_cast<float>(*reinterpret_cast<const F16*>(at)));
      sum += x;
      squares += x * x;
    }
    EXPECT_NEAR(sum / kN, 0, 0.01) << name_of(type);
    EXPECT_NEAR(squares / kN, 1, 0.02) << name_of(type);
  }
  kernels::gpu::fill_with_codes(stream.get(), memory.data(), kN);
  std::set<uint8_t> codes;
  for (int64_t i = 0; i < kN; ++i) codes.insert(static_cast<uint8_t>(memory.data()[i]));
  EXPECT_GT(codes.size(), 100u);
  for (const int nan : {0x7d, 0x7e, 0x7f, 0xff})
    EXPECT_FALSE(codes.contains(static_cast<uint8_t>(nan)));
}

TEST_F(CudaEmulated, D_R3_ProductsOfOtherStridesAreOthers) {
  const auto kernels = gpu_prepared();
  const kernels::MatmulShape dense = {.m = 8, .n = 8, .k = 8};
  kernels::MatmulShape slice = dense;
  slice.lda = 24;
  EXPECT_EQ(&kernels->product(dense), &kernels->product(dense));
  EXPECT_NE(&kernels->product(dense), &kernels->product(slice));
  for (int64_t kernels::MatmulShape::*of :
       {&kernels::MatmulShape::ldb, &kernels::MatmulShape::ldc, &kernels::MatmulShape::stride_a,
        &kernels::MatmulShape::stride_b, &kernels::MatmulShape::stride_c}) {
    kernels::MatmulShape other = dense;
    other.*of = 64;
    EXPECT_NE(&kernels->product(dense), &kernels->product(other));
  }
}

// As kernel_selection.txt of an earlier version has them, where a product that writes C was one of
// its own.
TEST_F(CudaEmulated, AFreshProductTakesTheChoiceOfTheShapeThatWrites) {
  constexpr int64_t kN = 4, kK = 999;
  const kernels::MatmulShape writes = {.m = kN, .n = kN, .k = kK};
  kernels::MatmulShape adds = writes;
  adds.accumulate = true;
  kernels::KernelChoices choices("here");
  choices.add(adds, {{0}, 0, 1});
  choices.add(writes, {{1}, 0, 1});  // sums that begin with the last term
  const GpuStream stream;
  testing::Both a(DType::kF32, {kN * kK}), b(DType::kF32, {kK * kN}), c(DType::kF32, {kN * kN});
  for (int64_t i = 0; i < kN * kK; ++i) {
    a.set(i, std::sin(0.7 * static_cast<double>(i)));
    b.set(i, std::cos(0.3 * static_cast<double>(i)));
  }
  a.send(stream.get()), b.send(stream.get());
  const auto product = [&](const kernels::MatmulShape& shape, bool fresh) {
    kernels::GpuBlas blas;
    blas.choose_by(choices);
    const kernels::GpuMatmul matmul(shape, blas);
    const DeviceBuffer workspace("a workspace", matmul.workspace_bytes());
    c.send(stream.get());  // zero
    matmul.run({stream.get(), workspace.data()},
               {a.device().data, b.device().data, c.device().data, fresh});
    return c.fetch(stream.get());
  };
  EXPECT_EQ(product(adds, true), product(writes, false));
  EXPECT_NE(product(adds, true), product(adds, false));
}

TEST_F(CudaEmulated, D_B1_DevicesHaveNames) {
  device_conduct.number = 0xab;
  EXPECT_EQ(use_gpu(0).uuid, "abababababababababababababababab");
}

}  // namespace
}  // namespace tessera
