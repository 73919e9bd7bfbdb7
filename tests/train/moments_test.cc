// Runs with moments in 8 bits: what they store, save and resume, and how well they train.
#include <cmath>
#include <map>

#include "checkpoint/async_save.h"
#include "checkpoint/folders.h"
#include "compile/compile.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/config/optimizer_groups.h"
#include "tests/data/dataset_fixture.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

using State = std::map<std::string, std::vector<std::byte>>;

struct CodedRun {
  explicit CodedRun(const config::RunConfig& c)
      : world(comm::self_world()),
        trainer(std::make_unique<Trainer>(
            c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
            *world, std::function<double()>())),
        source(batches(c)) {
    trainer->initialize();
  }
  StepResult step(int64_t n, double rate = 1e-2) { return trainer->step(n, rate, source); }
  // What a checkpoint would have.
  State state() const {
    State all;
    for (const checkpoint::StateTensor& t : trainer->state()) {
      std::vector<std::byte> memory;
      const TensorView data = checkpoint::data_of(t, memory);
      const auto* bytes = data.as<std::byte>();
      std::vector<std::byte>& to = all[t.name];
      to.insert(to.end(), bytes, bytes + data.bytes());
    }
    return all;
  }

  std::unique_ptr<comm::World> world;
  std::unique_ptr<Trainer> trainer;
  data::BatchSource source;
};

config::RunConfig coded(OptimizerKind kind = OptimizerKind::kAdamW) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.optimizer = config::optimizer_defaults(kind);
  c.optimizer.moment_dtype = config::MomentType::k8Bit;
  c.compiler.poison = true;
  return c;
}

class MomentsIn8Bits : public data::DatasetFixture {
 protected:
  Path saved(const CodedRun& run, const std::string& name) {
    checkpoint::save(folder_ / name, checkpoint::sample_header(3), run.trainer->state());
    return checkpoint::find_latest(folder_ / name).found->path;
  }
};

TEST_F(MomentsIn8Bits, ResumeWithTheSameBits) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kLion, OptimizerKind::kSgd})
    for (const compile::Precision precision :
         {compile::Precision::kFp32, compile::Precision::kBf16, compile::Precision::kFp16,
          compile::Precision::kBf16Sr}) {
      config::RunConfig c = coded(kind);
      c.precision = precision;
      c.optimizer.ema = precision == compile::Precision::kBf16 ? 0.5 : 0;
      if (precision != compile::Precision::kFp16) c.layout.offload = "optimizer";
      const std::string name = std::string(traits_of(kind).name) + name_of_entry(precision);
      CodedRun run(c), resumed(c);
      for (int64_t s = 1; s <= 3; ++s) run.step(s, 1e-3);
      checkpoint::CheckpointReader reader(saved(run, name));
      EXPECT_EQ(reader.find("layer0.mlp.up.weight|moment1")->dtype, DType::kF32);
      resumed.step(1);  // overwrites the state
      resumed.trainer->load(reader, config::Load::kAll);
      EXPECT_TRUE(run.state() == resumed.state()) << name;
      const StepResult a = run.step(4, 1e-3), b = resumed.step(4, 1e-3);
      EXPECT_EQ(a.loss, b.loss) << name;
      EXPECT_TRUE(run.state() == resumed.state()) << name;
    }
}

TEST_F(MomentsIn8Bits, OnTheHostHaveTheSameBits) {
  config::RunConfig c = coded();
  c.precision = compile::Precision::kBf16;
  CodedRun device(c);
  c.layout.offload = "optimizer";
  CodedRun host(c);
  EXPECT_GT(host.trainer->engine().host_arena_bytes(), 0);
  for (int64_t s = 1; s <= 3; ++s) EXPECT_EQ(host.step(s, 1e-3).loss, device.step(s, 1e-3).loss);
  EXPECT_TRUE(host.state() == device.state());
}

// A checkpoint has f32 under the usual names, so the key may change in both directions.
TEST_F(MomentsIn8Bits, ResumeFromAndWithMomentsInF32) {
  config::RunConfig eight = coded(), plain = coded();
  plain.optimizer.moment_dtype = config::MomentType::kFp32;
  CodedRun a(eight), b(plain);
  for (int64_t s = 1; s <= 3; ++s) a.step(s, 1e-3);
  checkpoint::CheckpointReader reader(saved(a, "eight"));
  b.trainer->load(reader, config::Load::kAll);
  EXPECT_TRUE(a.state() == b.state());
  b.step(4, 1e-3);
  checkpoint::CheckpointReader back(saved(b, "plain"));
  a.trainer->load(back, config::Load::kAll);
  const State coarse = a.state(), fine = b.state();
  for (const auto& [name, bytes] : fine) {
    const auto* x = reinterpret_cast<const float*>(bytes.data());
    const auto* y = reinterpret_cast<const float*>(coarse.at(name).data());
    double difference = 0, size = 1e-30;
    for (size_t i = 0; i < bytes.size() / 4; ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      size += x[i] * x[i];
    }
    // The largest relative error of a code of the upper decade is 3.5 %.
    const double bound = name.find("|moment") == name.npos ? 0 : 0.035;
    EXPECT_LE(std::sqrt(difference / size), bound) << name;
  }
  // A run that starts from weights begins with moments of zero.
  a.trainer->load(back, config::Load::kWeights);
  for (const auto& [name, bytes] : a.state()) {
    if (name.find("|moment") == name.npos) continue;
    for (const std::byte x : bytes) ASSERT_EQ(x, std::byte{0}) << name;
  }
}

// A step whose gradient is not finite changes nothing.
TEST_F(MomentsIn8Bits, SkippedStepsChangeNothing) {
  config::RunConfig c = coded();
  c.precision = compile::Precision::kFp16;
  CodedRun run(c);
  run.step(1, 1e-3);
  const State before = run.state();
  const StepResult r = run.trainer->step(2, 1e-3, run.source, {}, 0x1p60);
  EXPECT_FALSE(r.finite);
  EXPECT_TRUE(run.state() == before);
}

TEST_F(MomentsIn8Bits, GroupsHaveTheirOwnDtype) {
  config::RunConfig c = coded();
  c.optimizer.groups = config::groups_of(
      "[{match: [embed.*], moment_dtype: fp32}, {match: ['*norm*'], kind: adafactor, "
      "moment_dtype: fp32}]");
  CodedRun run(c);
  std::map<std::string, DType> stored;
  for (const StateShard& x : local_state(run.trainer->program()))
    if (x.role == Role::kMoment1) stored[x.name] = x.dtype;
  EXPECT_EQ(stored.at("embed.weight|moment1"), DType::kF32);
  EXPECT_EQ(stored.at("layer0.mlp.up.weight|moment1"), DType::kU8);
  EXPECT_FALSE(stored.contains("layer0.norm1.gain|moment1"));
  run.step(1, 1e-3);
  EXPECT_TRUE(run.step(2, 1e-3).finite);
}

// Only adapters have moments, and they train as with moments in f32.
TEST_F(MomentsIn8Bits, WithAdapters) {
  config::RunConfig c = coded();
  c.lora.rank = 4;
  CodedRun eight(c);
  c.optimizer.moment_dtype = config::MomentType::kFp32;
  CodedRun plain(c);
  for (const StateShard& x : local_state(eight.trainer->program()))
    EXPECT_EQ(x.dtype == DType::kU8, x.role != Role::kWeight) << x.name;
  const double first = plain.step(1).loss;
  eight.step(1);
  for (int64_t s = 2; s <= 20; ++s) eight.step(s), plain.step(s);
  // The same batch before and after these steps.
  CodedRun untrained(c);
  EXPECT_EQ(untrained.step(1).loss, first);
  EXPECT_NEAR(eight.step(21).loss, plain.step(21).loss, 0.005 * first);
  EXPECT_FALSE(eight.state().at("layer0.mlp.up.gate.lora_b") ==
               untrained.state().at("layer0.mlp.up.gate.lora_b"));
}

// Losses stay near those of moments in f32, which the same steps begin with.
TEST_F(MomentsIn8Bits, TrainNearlyAsWell) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kLion, OptimizerKind::kSgd}) {
    config::RunConfig c = coded(kind);
    const double rate = kind == OptimizerKind::kSgd    ? 0.1
                        : kind == OptimizerKind::kLion ? 1e-3
                                                       : 5e-3;
    CodedRun eight(c);
    c.optimizer.moment_dtype = config::MomentType::kFp32;
    CodedRun plain(c);
    double first = 0, a = 0, b = 0;
    for (int64_t s = 1; s <= 120; ++s) {
      a = eight.step(s, rate).loss;
      b = plain.step(s, rate).loss;
      if (s == 1) first = b;
    }
    EXPECT_LT(b, first - 0.5) << traits_of(kind).name;
    EXPECT_NEAR(a, b, 0.02 * b) << traits_of(kind).name;
    RecordProperty(std::string(traits_of(kind).name), fmt::format("{} {}", a, b));
  }
}

// Ranks that would cut blocks are rejected, with the weight and two ways out.
TEST_F(MomentsIn8Bits, LayoutsThatCutBlocksAreRejected) {
  config::RunConfig c = coded();
  c.layout.tensor = 4;
  const auto compiled = [&] {
    return compile::compile_stages(config::compile_request(c, compile::ProgramKind::kTrain),
                                   Target());
  };
  try {
    compiled();
    FAIL() << "no error";
  } catch (const Error& e) {
    const std::string message = e.what();
    for (const char* part : {"layout.tensor = 4", "ranges of 8 elements", "blocks of 64",
                             "Set layout.tensor: 1", "match: [layer.attn.out.weight]"})
      EXPECT_NE(message.find(part), message.npos) << message;
  }
  c.optimizer.groups = config::groups_of("[{match: ['*'], moment_dtype: fp32}]");
  compiled();
}

}  // namespace
}  // namespace tessera::train
