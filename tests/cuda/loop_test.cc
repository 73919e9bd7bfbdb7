// Whole runs on a device, in which the host is a step ahead: what they write is what a run on the
// CPU writes, whatever is done between steps.
#include <chrono>

#include "tensor/gpu.h"
#include "tests/cli/program.h"
#include "train/load_run.h"
#include "train/loop.h"

namespace tessera {
namespace {

constexpr const char* kRun =
    "model: { layers: 1, hidden: 16, heads: 2, vocabulary: 0, context: 16 }\n"
    "data: { tokenizer: t.json, train: [d], validation: [d], sequence_length: 16 }\n"
    "batch: { global: 2, micro: 1, warmup_sizes: [1], warmup_steps_per_size: 3 }\n"
    "precision: fp32\n"
    "schedule: { steps: 9 }\n"
    "metrics: { every_steps: 1, validate_every_steps: 4, validate_sequences: 2 }\n"
    "checkpoint: { every_steps: 5, keep: 9 }\n"
    "run: { seed: 1, threads: 1, kernel_selection: heuristic }\n";

class CudaLoop : public cli::ProgramFolder {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
    put("run.yaml", kRun);
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
  }
  void TearDown() override {
    if (!before_.empty()) std::filesystem::current_path(before_);
  }

  // Its lines of metrics, by "step" or "step/name".
  std::map<std::string, Tree> train_in(const std::string& folder,
                                       std::vector<std::string> more) const {
    more.push_back("run.directory=" + folder);
    train::TrainOptions o;
    o.now_s = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
    };
    o.wall_s = [] { return 1.0; };
    o.terminal.file = stderr;
    train::train(train::load_run("run.yaml", more), o);
    std::map<std::string, Tree> lines;
    const std::string text = get(folder + "/metrics.jsonl");
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      Tree line = parse_json(text.substr(at, text.find('\n', at) - at), "metrics");
      std::string key = std::to_string(std::get<int64_t>(line.find("step")->value));
      if (line.find("name")) key += "/validation";
      lines.emplace(std::move(key), std::move(line));
    }
    return lines;
  }
  Path before_;  // where the test was started

  static double number(const Tree& line, const char* name) {
    const Tree* const t = line.find(name);
    return t == nullptr ? NAN : std::get<double>(t->value);
  }
};

TEST_F(CudaLoop, WritesWhatTheCpuWrites) {
  const auto want = train_in("cpu", {"run.device=cpu"});
  const auto got = train_in("device", {"run.device=cuda"});
  ASSERT_EQ(want.size(), 9u + 3u);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [key, line] : want) {
    const char* const loss = key.ends_with("validation") ? "validation_loss" : "loss";
    ASSERT_TRUE(got.contains(key)) << key;
    EXPECT_NEAR(number(got.at(key), loss), number(line, loss), 1e-5 * number(line, loss)) << key;
    if (line.find("step_s") != nullptr) {
      EXPECT_GT(number(got.at(key), "step_s"), 0) << key;
    }
  }
  for (const char* step : {"5", "9"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "device/checkpoints" / step)) << step;
}

// A bench of a large model writes no checkpoint.
TEST_F(CudaLoop, D_G7_NothingIsSaved) {
  for (const char* device : {"cpu", "cuda"}) {
    const auto lines =
        train_in(device, {std::string("run.device=") + device, "checkpoint.every_steps=0",
                          "checkpoint.save_at_end=false"});
    EXPECT_EQ(lines.size(), 9u + 3u);
    const Path saved = folder_ / device / "checkpoints";
    EXPECT_TRUE(!std::filesystem::exists(saved) || std::filesystem::is_empty(saved)) << device;
  }
}

TEST_F(CudaLoop, GoesOnFromAnyStep) {
  const auto whole = train_in("whole", {"run.device=cuda"});
  train_in("stopped", {"run.device=cuda", "run.stop_after_steps=7"});
  const auto got = train_in("stopped", {"run.device=cuda"});
  for (const auto& [key, line] : whole)
    for (const char* name : {"loss", "grad_norm", "validation_loss"})
      if (line.find(name)) {
        EXPECT_EQ(number(got.at(key), name), number(line, name)) << key << ' ' << name;
      }
}

}  // namespace
}  // namespace tessera
