// Several ranks, each with an emulated device of its own, by the stand-in for NCCL
// (emulator/nccl.cc): transfers, their order, their records.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "comm/world.h"
#include "tests/comm/ranks.h"
#include "tests/cuda/emulator/nccl.h"
#include "tests/cuda/emulator/streams.h"
#include "tests/cuda/first_executor.h"
#include "tests/train/tiny_run.h"
#include "train/run_device.h"

namespace tessera::testing {
namespace {

using cuda_emulator::device_conduct;
using cuda_emulator::nccl_conduct;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CudaRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    nccl_conduct = {};
    device_conduct = {};
    device_conduct.number = 1 + static_cast<int>(ranks().rank());
  }
  static std::unique_ptr<runtime::PreparedKernels> kernels() {
    return std::make_unique<runtime::PreparedKernels>(
        kernels::backend_of(CpuFeatures(), 1, use_gpu(0)));
  }
  static config::RunConfig config(const std::string& layout) {
    config::RunConfig c = train::tiny(model::Family::kLlama);
    c.model.layers = 4;
    c.model.kv_heads = 4;
    c.data.sequence_length = 12;
    c.batch.global = 4;
    c.batch.micro = 1;
    if (layout == "data") c.layout.data = 2;
    if (layout == "zero") c.layout.data = 2, c.layout.zero = 3;
    if (layout == "tensor") c.layout.tensor = 2, c.layout.sequence_parallel = true;
    if (layout == "pipeline") {
      c.layout.pipeline = 2;
      c.layout.interleave = 2;
      c.layout.pipeline_schedule = compile::PipelineSchedule::kInterleaved1F1B;
    }
    if (layout == "all") c.layout.pipeline = 2, c.layout.tensor = 2;
    if (layout == "four") c.layout.pipeline = 4;
    if (layout == "wide") c.layout.data = 2, c.layout.tensor = 2, c.layout.zero = 2;
    return c;
  }
  static std::vector<std::string> layouts() {
    if (ranks().size() == 2) return {"data", "zero", "tensor", "pipeline"};
    return {"all", "four", "wide"};
  }
  static data::BatchSource source_of(const config::RunConfig& c, int64_t data_rank) {
    return data::BatchSource(
        config::batch_shape(c, data_rank), [](int64_t sample, std::span<int32_t> out) {
          for (size_t t = 0; t < out.size(); ++t)
            out[t] = static_cast<int32_t>((sample * 31 + static_cast<int64_t>(t * t) * 7 + 3) % 96);
          return static_cast<int64_t>(out.size());
        });
  }
  // Trains on all ranks, one step ahead where that is possible.
  static train::Curve train(train::Trainer& trainer, const config::RunConfig& c, int steps,
                            std::vector<runtime::CommunicationTime>* times = nullptr) {
    trainer.initialize();
    data::BatchSource source = source_of(c, trainer.data_rank());
    train::Curve curve;
    const auto keep = [&](const train::StepResult& r) {
      curve.losses.push_back(r.loss);
      curve.norms.push_back(r.grad_norm);
      if (times) times->push_back(*r.communication);
    };
    for (int step = 1; step <= steps; ++step) {
      if (!trainer.can_start_step(step)) {
        while (trainer.under_way() > 0) keep(trainer.finish_step());
        keep(trainer.step(step, 1e-3, source));
        continue;
      }
      trainer.prepare_step(step, 1e-3, source);
      trainer.start_step();
      if (trainer.under_way() == 2) keep(trainer.finish_step());
    }
    while (trainer.under_way() > 0) keep(trainer.finish_step());
    return curve;
  }
  static train::Curve on_cpu(const config::RunConfig& c, int steps) {
    train::Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 1),
                           INT64_MAX, ranks(), {});
    return train(trainer, c, steps);
  }
  void expect_trains(const config::RunConfig& c, const std::string& transport) {
    constexpr int kSteps = 5;
    train::Trainer trainer(c, kernels(), INT64_MAX, ranks(), now_s);
    EXPECT_NE(trainer.engine().transport().find(transport), std::string::npos)
        << trainer.engine().transport();
    train::expect_same(train(trainer, c, kSteps), on_cpu(c, kSteps), 1e-5);
  }
};

// Operations of several communicators are ordered: by NCCL, or by the run where NCCL is too old.
TEST_F(CudaRanks, D_B5_EveryLayoutTrains) {
  for (const std::string& layout : layouts()) {
    SCOPED_TRACE(layout);
    expect_trains(config(layout), "which orders its communicators");
    EXPECT_EQ(nccl_conduct.most_blocks, 16);
  }
}
TEST_F(CudaRanks, D_B5_OldVersionsToo) {
  for (const int version : {NCCL_VERSION(2, 13, 4), NCCL_VERSION(2, 25, 1)}) {
    nccl_conduct.version = version;
    expect_trains(config(layouts().back()), "one at a time");
  }
}
TEST_F(CudaRanks, D_B5_AUsersChoiceIsKept) {
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  expect_trains(config(layouts()[0]), "one at a time");
}

// The stand-in detects two communicators in two streams that nothing orders.
TEST_F(CudaRanks, D_B5_OperationsWithoutOrderAreSeen) {
  nccl_conduct.version = NCCL_VERSION(2, 25, 1);
  const auto world = comm::nccl_world(ranks());
  std::vector<int64_t> all(static_cast<size_t>(ranks().size()));
  std::iota(all.begin(), all.end(), 0);
  const auto first = world->group(all), second = world->group(all);
  const GpuStream one, two;
  const DeviceBuffer a("a", 64 * ranks().size()), b("b", 64 * ranks().size());
  const auto gather = [&](comm::Communicator& c, const DeviceBuffer& to, Stream s) {
    c.use(s);
    const TensorView whole = {to.data(), DType::kF32, {16 * ranks().size()}};
    const TensorView part = {to.data() + 64 * ranks().rank(), DType::kF32, {16}};
    c.all_gather(part, whole, 16);
  };
  gather(*first, a, one.get());
  EXPECT_THROW(gather(*second, b, two.get()), Error);
  synchronise(one.get());
}

TEST_F(CudaRanks, D_B1_RanksOnOneDeviceGoThroughTheHost) {
  const std::string layout = layouts()[0];
  device_conduct.number = 7;
  expect_trains(config(layout), "ranks 0 and 1 share a GPU");
  EXPECT_EQ(nccl_conduct.joined, 0);
}

// A run by graphs sends the same bytes as one call by call, and reports the times.
TEST_F(CudaRanks, D_B7_LaunchesAreRecorded) {
  for (const std::string& layout : layouts()) {
    SCOPED_TRACE(layout);
    const config::RunConfig c = config(layout);
    train::Trainer trainer(c, kernels(), INT64_MAX, ranks(), now_s);
    std::vector<runtime::CommunicationTime> times;
    train(trainer, c, 4, &times);
    ASSERT_EQ(times.size(), 4u);
    EXPECT_GT(stream_executor(trainer).graphs().size(), 0);
    for (size_t i = 1; i < times.size(); ++i) {
      EXPECT_EQ(times[i].bytes_sent, times[0].bytes_sent) << "step " << i + 1;
      EXPECT_GT(times[i].total_s, 0) << "step " << i + 1;
      EXPECT_GE(times[i].exposed_s, 0);
      EXPECT_EQ(times[i].total_s, times[1].total_s);  // of the step that was timed
    }
    int64_t sent = 0;
    for (const auto& [group, bytes] : times[0].bytes_sent) sent += bytes;
    EXPECT_GT(sent, 0);
  }
}

// The rank that is late is named, with the transfer that waits for it.
TEST_F(CudaRanks, D_B7_AWaitNamesItsTransfer) {
  const config::RunConfig c = config(ranks().size() == 2 ? "data" : "four");
  train::Trainer trainer(c, kernels(), INT64_MAX, ranks(), now_s);
  const runtime::Executor& e = trainer.engine().executor(0);
  runtime::Waiting seen;
  std::string doing;
  trainer.engine().hooks().started = [&](const runtime::OpStart& at) {
    if (at.waits) doing = at.op.origin;
  };
  // Rank 1 comes when rank 0 has seen that it waits, or after a minute. All ranks have one parent.
  const Path told = std::filesystem::temp_directory_path() / fmt::format("seen-{}", ::getppid());
  const bool late = ranks().rank() == 1;
  for (int i = 0; late && i < 6000 && !std::filesystem::exists(told); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::jthread look([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && !late) {
      if (const runtime::Waiting w = e.waiting(); w.call != kNone) {
        seen = w;
        if (ranks().rank() == 0) std::ofstream(told).put('\n');
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  train(trainer, c, 1);
  look.request_stop();
  look.join();
  EXPECT_EQ(e.waiting().call, kNone);
  if (ranks().rank() != 0) return;
  std::filesystem::remove(told);
  EXPECT_FALSE(seen.op.empty());
  EXPECT_FALSE(doing.empty());
  EXPECT_NE(std::find(seen.group.begin(), seen.group.end(), 1), seen.group.end());
  if (c.layout.pipeline > 1) {
    EXPECT_EQ(seen.missing, std::vector<int64_t>{1});
  }
}

TEST_F(CudaRanks, D_B9_SeveralGraphsAreTheSame) {
  for (const std::string& layout : layouts()) {
    SCOPED_TRACE(layout);
    const config::RunConfig c = config(layout);
    train::Trainer whole(c, kernels(), INT64_MAX, ranks(), now_s);
    const train::Curve want = train(whole, c, 4);
    train::Trainer trainer(c, kernels(), INT64_MAX, ranks(), now_s);
    runtime::StepGraphs& graphs = stream_executor(trainer).graphs();
    graphs.limits.graph_nodes = 40 + 13 * ranks().rank();  // cut at another call on every rank
    const train::Curve got = train(trainer, c, 4);
    EXPECT_GT(graphs.size(), 2);
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_EQ(got.norms, want.norms);
  }
}

// An Error in the middle of a group leaves none open, or an abort would become part of it.
TEST_F(CudaRanks, D_B10_NoGroupStaysOpen) {
  const auto world = comm::nccl_world(ranks());
  std::vector<int64_t> all(static_cast<size_t>(ranks().size()));
  std::iota(all.begin(), all.end(), 0);
  {
    const auto group = world->group(all);
    const GpuStream stream;
    group->use(stream.get());
    const DeviceBuffer memory("all", 64 * ranks().size());
    const TensorView whole = {memory.data(), DType::kF32, {16 * ranks().size()}};
    const TensorView part = {memory.data() + 64 * ranks().rank(), DType::kF32, {16}};
    nccl_conduct.refuses_sends = true;
    EXPECT_THROW(group->all_gather(part, whole, 16), Error);
    EXPECT_EQ(nccl_conduct.open_groups, 0);
  }
  // After an Error peers may have ended: communicators are aborted, not destroyed.
  EXPECT_EQ(nccl_conduct.aborted, 1);
  EXPECT_EQ(nccl_conduct.finalized, 0);
}

TEST_F(CudaRanks, D_B11_ANormalEndFinishesWithThePeers) {
  const config::RunConfig c = config(layouts()[0]);
  {
    train::Trainer trainer(c, kernels(), INT64_MAX, ranks(), now_s);
    train(trainer, c, 2);
  }
  EXPECT_GT(nccl_conduct.joined, 0);
  EXPECT_EQ(nccl_conduct.finalized, nccl_conduct.joined);
  EXPECT_EQ(nccl_conduct.destroyed, nccl_conduct.joined);
  EXPECT_EQ(nccl_conduct.aborted, 0);
}

// Staging is there before the first step, and no step allocates: a run that was planned to fit does
// not fail in its first sum.
TEST_F(CudaRanks, D_B6_StepsTakeNoMemory) {
  for (const std::string& layout : layouts()) {
    const config::RunConfig c = config(layout);
    train::Trainer trainer(c, kernels(), INT64_MAX, ranks(), now_s);
    const int64_t before = free_gpu_bytes();
    train(trainer, c, 4);
    EXPECT_EQ(free_gpu_bytes(), before) << layout;
    const compile::MemoryPlan m = compile::memory_plan(trainer.program());
    EXPECT_EQ(nccl_conduct.joined, m.communicators) << layout;
    EXPECT_EQ(trainer.engine().arena_bytes(), trainer.engine().planned_bytes());
    nccl_conduct.joined = 0;
  }
}

}  // namespace
}  // namespace tessera::testing
