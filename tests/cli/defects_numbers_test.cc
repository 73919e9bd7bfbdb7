// Runs with NaN, infinity or divergence: what is saved, which message is printed, and exit code 3.
#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/checksum.h"
#include "checkpoint/index.h"
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kRun =
    "model: { family: llama, layers: 1, hidden: 32, heads: 2, vocabulary: 257, context: 32 }\n"
    "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
    "batch: { global: 4, micro: 2 }\n"
    "precision: fp32\n"
    "optimizer: { learning_rate: 1.0e-3 }\n"
    "schedule: { kind: constant, steps: 8 }\n"
    "metrics: { tensorboard: false }\n"
    "checkpoint: { every_steps: 1, keep: 3 }\n"
    "run: { directory: run, seed: 1, threads: 1 }\n";

class Defects : public ProgramFolder {
 protected:
  Defects() { put("n.yaml", kRun); }

  ProgramResult expect(int code, const std::string& arguments,
                       const std::vector<std::string>& parts = {}) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.out << r.err;
    const std::string all = r.out + r.err;
    for (const std::string& part : parts)
      EXPECT_NE(all.find(part), std::string::npos) << arguments << ": " << part << "\n" << all;
    EXPECT_EQ(all.find("-nan"), std::string::npos) << all;
    return r;
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  // Every line is JSON. The values of `key`, of the lines that have it; null is NaN.
  std::vector<double> metrics(const char* key) const {
    std::vector<double> out;
    for (const Tree& line : parse_json_lines(get("run/metrics.jsonl"), "metrics")) {
      const Tree* found = line.find(key);
      if (found == nullptr) continue;
      const auto* x = std::get_if<double>(&found->value);
      const auto* n = std::get_if<int64_t>(&found->value);
      const auto* b = std::get_if<bool>(&found->value);
      out.push_back(x ? *x : n ? static_cast<double>(*n) : b ? static_cast<double>(*b) : NAN);
    }
    return out;
  }

  // Writes `value` over elements of a tensor, with the checksums that belong to it.
  void forge(const std::string& checkpoint, const std::string& tensor, float value,
             const std::vector<int64_t>& elements) const {
    checkpoint::CheckpointIndex index =
        checkpoint::parse_index(get(checkpoint + "/index.json"), "index");
    for (checkpoint::StoredTensor& t : index.tensors) {
      if (t.name != tensor) continue;
      checkpoint::StoredPiece& p = t.pieces.at(0);
      const std::string file = checkpoint + "/" + index.files.at(static_cast<size_t>(p.file)).name;
      std::string bytes = get(file);
      for (const int64_t e : elements)
        std::memcpy(bytes.data() + p.offset + e * 4, &value, sizeof(value));
      const std::string_view piece(bytes.data() + p.offset, static_cast<size_t>(p.bytes));
      p.checksum = checkpoint::checksum_of(piece);
      put(file, bytes);
    }
    put(checkpoint + "/index.json", checkpoint::to_text(index));
  }
};

// fp16: the loss is infinite or NaN from some step on. No scale changes a forward pass, so the run
// ends there, and no checkpoint of the dead model exists.
TEST_F(Defects, M2_ALossThatIsNotFiniteEndsAnFp16Run) {
  for (const char* rate : {"1e10", "1e30"}) {
    std::filesystem::remove_all(folder_ / "run");
    expect(3,
           fmt::format("train n.yaml precision=fp16 schedule.steps=60 optimizer.learning_rate={}",
                       rate),
           {"tessera: the loss is"});
    for (const double loss : metrics("loss")) EXPECT_TRUE(std::isfinite(loss));
    if (exists("run/checkpoints")) {
      const ProgramResult r = run("checkpoint verify run");
      EXPECT_EQ(r.code == 0 || r.err.find("no checkpoints") != r.err.npos, true) << r.out << r.err;
    }
  }
}

// An update leaves weights whose gradient is not finite, though its own loss and norm were finite.
// Every checkpoint is finite, and the one that the message calls good continues.
TEST_F(Defects, M2_TheLastGoodCheckpointIsGood) {
  expect(0, "train n.yaml schedule.steps=3");
  expect(3, "train n.yaml optimizer.learning_rate=1e38 schedule.steps=9",
         {"not finite", "Last good checkpoint: run/checkpoints/3.", "--from-step 3"});
  expect(0, "checkpoint verify run", {"intact"});
  expect(0, "train n.yaml --from-step 3 schedule.steps=5");
  for (const double x : metrics("loss")) EXPECT_TRUE(std::isfinite(x));
  // The good ones from before are still there.
  EXPECT_TRUE(exists("run/checkpoints/3"));
  expect(0, "eval run/checkpoints/3 d --samples 2");
}

TEST_F(Defects, M2_LossScalesOutOfRangeAreRefused) {
  expect(1, "train n.yaml precision=fp16 loss_scale.initial=1e300",
         {"loss_scale.initial = 1e+300", "expected a value in"});
  EXPECT_FALSE(exists("run"));
}

// Gradients that overflow at every scale end the run, after at most hysteresis + log2(initial /
// least) skipped steps.
TEST_F(Defects, M2_OverflowAtEveryScaleEndsTheRun) {
  expect(3,
         "train n.yaml precision=fp16 schedule.steps=60 loss_scale.initial=4294967296 "
         "loss_scale.min=1073741824 loss_scale.hysteresis=1",
         {"the gradient is not finite even at the lowest loss scale", "at step 3"});
}

// A run whose loss grows reports it, ends with exit code 3, and keeps its earlier checkpoints.
TEST_F(Defects, M14_ADivergedRunSaysSo) {
  expect(0, "train n.yaml schedule.steps=4 checkpoint.keep=1 optimizer.kind=sgd");
  ASSERT_TRUE(exists("run/checkpoints/4"));
  expect(3,
         "train n.yaml optimizer.kind=sgd optimizer.learning_rate=300 optimizer.clip_norm=1 "
         "schedule.steps=16 checkpoint.keep=1",
         {"the loss has diverged", "tessera train n.yaml --from-step"});
  EXPECT_TRUE(exists("run/checkpoints/4"));   // not pruned by steps of a diverged run
  EXPECT_TRUE(exists("run/checkpoints/16"));  // the last step is saved
  expect(0,
         "train n.yaml run.directory=off optimizer.kind=sgd optimizer.learning_rate=300 "
         "divergence.ratio=0 schedule.steps=3");
}

TEST_F(Defects, M14_ADivergedRunEndsBeforeItsLastStep) {
  expect(3,
         "train n.yaml optimizer.kind=sgd optimizer.learning_rate=300 optimizer.clip_norm=1 "
         "schedule.steps=1000 checkpoint.every_steps=0 divergence.steps=5",
         {"the loss has diverged at step"});
  EXPECT_LT(metrics("loss").size(), 12u);
}

TEST_F(Defects, M14_WeightsThatAreNotFiniteAreNamed) {
  expect(0, "train n.yaml schedule.steps=2");
  const std::string checkpoint = "run/checkpoints/2";
  const std::string name = "layer0.mlp.down.weight";
  for (const auto& [value, kind] : {std::pair{std::numeric_limits<float>::quiet_NaN(), "nan"},
                                    {-std::numeric_limits<float>::infinity(), "-inf"}}) {
    forge(checkpoint, name, value, {33, 40, 41});
    const std::vector<std::string> said = {"'" + name + "' has " + kind + " at [0, 33]; 3 of its"};
    expect(3, "checkpoint verify run", said);
    expect(3, "eval run d --samples 1", said);
    expect(3, "generate run --prompt a --max-tokens 2", said);
    expect(3, "train n.yaml schedule.steps=4", said);
    expect(3, "train n.yaml run.directory=tuned checkpoint.from=" + checkpoint, said);
    EXPECT_EQ(run("checkpoint verify run --json").code, 3);
  }
}

TEST_F(Defects, M14_ImportNamesWeightsThatAreNotFinite) {
  expect(0, "train n.yaml schedule.steps=1");
  expect(0, "checkpoint export run --to hf");
  std::string bytes = get("hf/model.safetensors");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - 4, &nan, sizeof(nan));
  put("hf/model.safetensors", bytes);
  expect(3, "checkpoint import --from hf --out bad.checkpoint",
         {"hf: '", " has nan at ", "1 of its"});
  EXPECT_FALSE(exists("bad.checkpoint"));
  expect(3, "eval hf d --samples 1", {" has nan at "});
}

// Skipped steps advance neither Adam's t nor the schedule, also across a restart.
TEST_F(Defects, F4_SkippedStepsAdvanceNoSchedule) {
  const std::string fp16 =
      "train n.yaml precision=fp16 loss_scale.initial=1e7 loss_scale.hysteresis=1 "
      "schedule.kind=linear schedule.warmup_steps=4 schedule.steps=20 checkpoint.every_steps=20 ";
  expect(0, fp16);
  const std::vector<double> rates = metrics("learning_rate"), skipped = metrics("skipped");
  ASSERT_EQ(rates.size(), 20u);
  double updates = 0;
  ASSERT_EQ(skipped[0], 1);  // else nothing is shown
  for (size_t i = 0; i < rates.size(); ++i) {
    if (updates <= 4) {
      EXPECT_NEAR(rates[i], 1e-3 * updates / 4, 1e-12) << "step " << i + 1;
    }
    if (skipped[i] == 0) ++updates;
  }
  EXPECT_GT(updates, 2);
  const std::vector<double> losses = metrics("loss");
  for (const int stop : {3, 12}) {
    std::filesystem::rename(folder_ / "run", folder_ / fmt::format("whole{}", stop));
    expect(0, fp16 + fmt::format("run.stop_after_steps={}", stop));
    expect(0, fp16);
    EXPECT_EQ(metrics("loss"), losses) << "stopped after " << stop;
    EXPECT_EQ(metrics("learning_rate"), rates) << "stopped after " << stop;
  }
}

TEST_F(Defects, F5_LoadAllRefusesAnotherOptimizer) {
  expect(0, "train n.yaml schedule.steps=2");
  const std::string other =
      "train n.yaml run.directory=other checkpoint.from=run/checkpoints/2 schedule.steps=3 ";
  expect(1, other + "checkpoint.load=all optimizer.kind=sgd optimizer.beta1=0.9",
         {"holds the optimizer state of adamw"});
  expect(0, other + "optimizer.kind=sgd");
  expect(0,
         "train n.yaml run.directory=same checkpoint.from=run/checkpoints/2 schedule.steps=3 "
         "checkpoint.load=all");
}

TEST_F(Defects, L10_ExtremeNumbersAreRefused) {
  expect(1,
         "train n.yaml 'data.train=[{prefix: d, weight: 1.0e+308}, {prefix: d, weight: "
         "1.0e-308}]' data.size_exponent=1",
         {"data.train has d with weight 1e+308"});
  expect(1, "train n.yaml optimizer.epsilon=1e-320", {"optimizer.epsilon = ", "expected a value"});
}

}  // namespace
}  // namespace tessera::cli
