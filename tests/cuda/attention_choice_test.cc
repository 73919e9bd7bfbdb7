// Attention by cuDNN, of which a stand-in runs here (emulator/cudnn.cc): whether it is asked for
// what lies in our arrays, when it is taken, and that what was measured is kept.
#include "kernels/gpu_attention.h"

#include "kernels/gpu/attention_trial.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/cuda/device.h"
#include "tests/cuda/emulator/cudnn.h"
#include "tests/train/tiny_run.h"
#include "train/run_device.h"
#include "train/run_products.h"

namespace tessera {
namespace {

using cuda_emulator::dnn_conduct;
using kernels::AttentionChoice;
using kernels::AttentionShape;
using kernels::CudaDnn;
using kernels::GpuAttention;
using kernels::KernelChoices;
using kernels::gpu::AttentionTrial;
using kernels::gpu::DnnParts;
using kernels::gpu::DnnRuns;

class AttentionChoosing : public testing::OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    dnn_conduct = {};
  }
  void TearDown() override { dnn_conduct = {}; }

  // A clock by which cuDNN's runs take a second and others two.
  double now_s() {
    const int64_t runs = dnn_conduct.runs - seen_;
    seen_ = dnn_conduct.runs;
    return clock_ += runs > 0 ? 1 : 2;
  }
  // What is measured for a shape; hears why it is not cuDNN.
  AttentionChoice choice(const AttentionShape& shape) {
    const CudaDnn dnn;
    KernelChoices choices("here");
    said_.clear();
    const GpuAttention attention(shape, {&dnn, &choices, [&] { return now_s(); },
                                         [&](const std::string& s) { said_.push_back(s); }});
    const AttentionChoice* found =
        choices.find_attention("cuDNN 1 " + kernels::attention_text(shape));
    EXPECT_NE(found, nullptr);
    EXPECT_EQ(attention.by_library(), !found->own());
    return *found;
  }

  int64_t seen_ = 0;
  double clock_ = 0;
  std::vector<std::string> said_;
};

// All that our packed arrays can be: one head or several a group, apart, documents, odd lengths.
std::vector<AttentionShape> shapes() {
  std::vector<AttentionShape> all = {
      {.b = 2, .t = 70, .s = 70, .kv = 3, .g = 1, .d = 16, .scale = 0.25f},
      {.b = 2, .t = 40, .s = 40, .kv = 2, .g = 3, .d = 24, .scale = 0.2f},
      {.b = 1, .t = 33, .s = 33, .kv = 2, .g = 2, .d = 64, .dtype = DType::kF16, .scale = 0.125f},
      {.b = 2, .t = 20, .s = 20, .kv = 2, .g = 1, .d = 8, .causal = false, .scale = 0.3f},
      {.b = 2, .t = 70, .s = 70, .kv = 2, .g = 1, .d = 16, .documents = true, .scale = 0.25f},
      {.b = 2, .t = 70, .s = 70, .kv = 2, .g = 2, .d = 16, .documents = true, .scale = 0.25f},
      {.b = 2,
       .t = 37,
       .s = 50,
       .kv = 2,
       .g = 1,
       .d = 16,
       .dtype = DType::kF16,
       .apart = true,
       .causal = false,
       .scale = 1},
      {.b = 3,
       .t = 37,
       .s = 50,
       .kv = 2,
       .g = 1,
       .d = 16,
       .apart = true,
       .causal = false,
       .padding = true,
       .scale = 1},
      {.b = 2,
       .t = 37,
       .s = 20,
       .kv = 2,
       .g = 3,
       .d = 16,
       .apart = true,
       .causal = false,
       .scale = 0.25f}};
  const size_t forwards = all.size();
  for (size_t i = 0; i < forwards; ++i) {
    all.push_back(all[i]);
    all.back().gradient = true;
  }
  return all;
}

// For what is measured, which takes thirty runs of each.
AttentionShape small() {
  return {.b = 2, .t = 12, .s = 12, .kv = 2, .g = 1, .d = 8, .scale = 0.25f};
}

// The trial's own comparison: every output row by row, after all of them were NaN.
TEST_F(AttentionChoosing, StridesMeanWhatLiesThere) {
  const CudaDnn dnn;
  for (const AttentionShape& shape : shapes()) {
    AttentionTrial trial(shape);
    for (const double times : {1.0, 2.0, 100.0}) {
      const DnnParts whole = DnnParts::whole(shape);
      const DnnRuns runs(times == 1.0 ? whole : whole.smaller(times), dnn);
      EXPECT_EQ(runs.parts.runs() * runs.parts.samples * runs.parts.kv, shape.b * shape.kv);
      EXPECT_EQ(trial.fault(runs, 0), "")
          << kernels::attention_text(shape) << ", " << runs.parts.runs() << " runs";
    }
  }
}

TEST_F(AttentionChoosing, AWrongResultIsSeen) {
  const CudaDnn dnn;
  for (const AttentionShape& shape : shapes()) {
    dnn_conduct.wrong = false;
    AttentionTrial trial(shape);
    dnn_conduct.wrong = true;
    EXPECT_NE(trial.fault({DnnParts::whole(shape), dnn}, 0), "") << kernels::attention_text(shape);
  }
}

TEST_F(AttentionChoosing, TheFasterIsTaken) {
  for (const bool gradient : {false, true}) {
    AttentionShape shape = small();
    shape.gradient = gradient;
    const AttentionChoice fast = choice(shape);
    EXPECT_EQ(fast.plan, "plain");
    EXPECT_EQ(fast.samples, 2);
    EXPECT_EQ(fast.kv, 2);
    EXPECT_EQ(said_.size(), 0u);
  }
}

// By a clock that would take it.
TEST_F(AttentionChoosing, WhatIsNotGoodIsRefusedByName) {
  const auto refused = [&](const AttentionShape& shape, size_t times, const std::string& why) {
    EXPECT_TRUE(choice(shape).own());
    ASSERT_EQ(said_.size(), times);
    EXPECT_NE(said_[0].find(why), std::string::npos) << said_[0];
    dnn_conduct = {};
  };
  AttentionShape shape = small();
  dnn_conduct.wrong = true;
  refused(shape, 2, "plan plain is not used: output: row 22 differs by ");
  dnn_conduct.varies = true;
  refused(shape, 2, "plan plain is not used: its bits differ from one run to the next");
  dnn_conduct.refuses = true;
  refused(shape, 1, "by our own kernels. cuDNN cannot take this shape");
  shape.gradient = true;
  dnn_conduct.wrong = true;
  refused(shape, 2, "plan plain is not used: gradient: row ");
  dnn_conduct.breaks = true;
  refused(shape, 2, "plan plain is not used: cuDNN cannot run plain");
}

TEST_F(AttentionChoosing, AWorkspaceThatIsTooLargeMakesMoreRuns) {
  AttentionShape shape = small();
  shape.b = 1;
  shape.gradient = true;
  dnn_conduct.workspace_of_head = (1ll << 29) + 1;
  const AttentionChoice chosen = choice(shape);
  EXPECT_EQ(chosen.plan, "plain");
  EXPECT_EQ(chosen.samples, 1);
  EXPECT_EQ(chosen.kv, 1);
  EXPECT_EQ(chosen.workspace_bytes, dnn_conduct.workspace_of_head);
}

TEST_F(AttentionChoosing, WhatIsKnownIsTakenWithoutMeasuring) {
  const CudaDnn dnn;
  const AttentionShape shape = shapes()[0];
  const std::string text = "cuDNN 1 " + kernels::attention_text(shape);
  KernelChoices choices("here");
  choices.add_attention(text, {"plain_too", 1, 3, 0, 1e-3});
  EXPECT_TRUE(GpuAttention(shape, {&dnn, &choices, {}, {}}).by_library());
  EXPECT_EQ(dnn_conduct.runs, 0);
  choices.add_attention(text, {.seconds = 1e-3});
  EXPECT_FALSE(GpuAttention(shape, {&dnn, &choices, {}, {}}).by_library());
  // Neither a clock nor a choice: ours.
  EXPECT_FALSE(GpuAttention(shapes()[1], {&dnn, &choices, {}, {}}).by_library());
  choices.add_attention(text, {"another", 1, 3, 0, 1e-3});
  EXPECT_THROW(GpuAttention(shape, {&dnn, &choices, {}, {}}), Error);
  choices.add_attention(text, {"plain", 1, 2, 0, 1e-3});  // 3 groups by twos
  EXPECT_THROW(GpuAttention(shape, {&dnn, &choices, {}, {}}), Error);
}

TEST(AttentionDifference, RowsAreHeldToUlps) {
  const auto bytes = [](const std::vector<float>& x) {
    std::vector<std::byte> b(2 * x.size());
    for (size_t i = 0; i < x.size(); ++i) reinterpret_cast<BF16*>(b.data())[i] = BF16(x[i]);
    return b;
  };
  // Two of queries, one of keys, much smaller.
  const std::vector<float> want = {1, 1, 1, 1, 0.01f, 0.01f, 1, 1, 1, 1, 0.01f, 0.01f};
  const auto said = [&](size_t i, float x) {
    std::vector<float> got = want;
    got[i] = x;
    return kernels::gpu::difference(DType::kBF16, {2, 3, 2}, bytes(got), bytes(want));
  };
  EXPECT_EQ(said(0, 1), "");
  EXPECT_EQ(said(0, 1.0078125f), "");
  EXPECT_NE(said(0, 1.1f), "");
  EXPECT_NE(said(4, 0.012f), "");
  EXPECT_NE(said(11, NAN), "");
}

class AttentionRuns : public AttentionChoosing {
 protected:
  void SetUp() override {
    AttentionChoosing::SetUp();
    config_ = train::tiny(model::Family::kLlama);
    config_.precision = compile::Precision::kBf16;
    config_.run.directory = folder_.path().string();
    config_.run.device = config::Device::kCuda;
  }
  train::Curve train(std::string* log = nullptr) {
    const auto world = comm::self_world();
    auto kernels = gpu_prepared();
    train::share_products(
        *kernels, config_, *world, [&] { return now_s(); },
        [&](const std::string& s) {
          if (log) *log += s + "\n";
        });
    train::Trainer trainer(config_, std::move(kernels), INT64_MAX, *world, {});
    const train::Curve curve = train::curve_of(trainer, config_, 3);
    EXPECT_EQ(trainer.engine().arena_bytes(), trainer.engine().planned_bytes());
    return curve;
  }
  Path file() const { return folder_.path() / "kernel_selection.txt"; }

  checkpoint::TemporaryFolder folder_;
  config::RunConfig config_;
};

TEST_F(AttentionRuns, TrainAndResumeByTheirFile) {
  std::string log;
  const train::Curve first = train(&log);
  EXPECT_NE(log.find("attention 2 of 2 shapes use cuDNN"), std::string::npos) << log;
  train::expect_same(first, train::run(config_, 3), 2e-3);
  const std::string text = read_file(file());
  EXPECT_NE(text.find("attention cuDNN 1 b=2 t=24 s=24 kv=2 g=2 d=8"), std::string::npos) << text;
  const int64_t before = dnn_conduct.runs;
  const train::Curve again = train();
  EXPECT_EQ(again.losses, first.losses);
  EXPECT_EQ(again.norms, first.norms);
  EXPECT_GT(dnn_conduct.runs, before);
  EXPECT_EQ(read_file(file()), text);
}

TEST_F(AttentionRuns, WithoutTheLibraryGoOn) {
  dnn_conduct.absent = true;
  std::string log;
  train::expect_same(train(&log), train::run(config_, 3), 2e-3);
  EXPECT_NE(log.find("attention by our own kernels: cuDNN 9 is not installed"), std::string::npos)
      << log;
  EXPECT_EQ(log.find("by our own"), log.rfind("by our own")) << log;
  EXPECT_EQ(read_file(file()).find("attention"), std::string::npos);
}

TEST_F(AttentionRuns, ProposedAndF32AskForNothing) {
  config_.run.kernel_selection = config::KernelSelection::kHeuristic;
  train();
  config_.run.kernel_selection = config::KernelSelection::kAutotune;
  config_.precision = compile::Precision::kFp32;
  train();
  EXPECT_EQ(dnn_conduct.runs, 0);
}

TEST_F(AttentionRuns, DocumentsToo) {
  config_.data.intra_document_masking = true;
  train::expect_same(train(), train::run(config_, 3), 2e-3);
  EXPECT_NE(read_file(file()).find("documents"), std::string::npos);
}

}  // namespace
}  // namespace tessera
