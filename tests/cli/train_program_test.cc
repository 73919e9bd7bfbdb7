// What faults of the world make of train, generate and eval: every one must give its exit code,
// name its place, say what was found and wanted and what to do, and leave every file as it was. And
// a run that is told to stop saves, leaves, and goes on bit for bit.
#include "tests/cli/program.h"

namespace tessera {
namespace {

constexpr const char* kRun =
    "model: { layers: 2, hidden: 64, heads: 4, vocabulary: 257, context: 64 }\n"
    "data: { tokenizer: t.json, train: [d], sequence_length: 64 }\n"
    "batch: { global: 4, micro: 2 }\n"
    "schedule: { steps: 4 }\n"
    "run: { directory: run, seed: 1, threads: 1 }\n";

class TrainProgram : public ProgramFolder {
 protected:
  TrainProgram() { put("run.yaml", kRun); }

  void expect_fault(const std::string& arguments, const std::vector<std::string>& parts,
                    int code = 1) const {
    const Files files = snapshot();
    const ProgramResult r = run(arguments);
    expect_message(arguments, r, parts, code);
    EXPECT_TRUE(snapshot() == files) << arguments << " changed a file";
  }
  static void expect_message(const std::string& arguments, const ProgramResult& r,
                             const std::vector<std::string>& parts, int code = 1) {
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.err;
    EXPECT_NE(r.err.find("tessera: "), std::string::npos) << r.err;
    for (const std::string& part : parts)
      EXPECT_NE(r.err.find(part), std::string::npos)
          << arguments << "\nwanted: " << part << "\nin: " << r.err;
  }
};

TEST_F(TrainProgram, FaultsOfTheRunFile) {
  expect_fault("train run.yaml model.heads=5",
               {"command line", "model.heads = 5", "does not divide hidden = 64", "Possible here"});
  expect_fault("train run.yaml batch.micro=3",
               {"batch.micro = 3", "does not divide batch.global = 4", "Possible here: 1, 2, 4"});
  expect_fault("train none.yaml", {"none.yaml", "cannot be opened"});
  expect_fault("train run.yaml modle.layers=3", {"command line", "modle", "model"});
}

TEST_F(TrainProgram, FaultsOfTheData) {
  expect_fault("train run.yaml data.train=[nowhere]",
               {"nowhere.idx", "No such file", "tessera data build"});
  expect_fault("train run.yaml model.vocabulary=0 data.tokenizer=none.json",
               {"none.json", "No such file"});
  put("bad.json", "{\"x");
  expect_fault("train run.yaml model.vocabulary=0 data.tokenizer=bad.json",
               {"bad.json:", "not JSON", "expected string literal"});
}

TEST_F(TrainProgram, TokenIdsBeyondTheVocabulary) {
  const Files data = snapshot();
  const std::string line = "train run.yaml model.vocabulary=100";
  expect_message(line, run(line),
                 {"d.bin: token", "beyond the vocabulary of 100", "Build it again, or set"});
  for (const auto& [name, bytes] : data) EXPECT_EQ(read_file(name), bytes) << name;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/checkpoints"));
}

TEST_F(TrainProgram, AnotherModelOrSeed) {
  ASSERT_EQ(run("train run.yaml schedule.steps=2").code, 0);
  expect_fault("train run.yaml run.seed=2",
               {"run holds checkpoints of another run", "run.seed was 1, is now 2",
                "checkpoint.allow_changes=true"});
  expect_fault("train run.yaml checkpoint.from=run model.layers=3 run.directory=other",
               {"run/checkpoints/2", "layer2.norm1.gain", "model.layers is 2 there, 3 in this run",
                "Set the model as it is there"});
  expect_fault("train run.yaml checkpoint.from=nowhere run.directory=other",
               {"nowhere: there is no such checkpoint"});
  const ProgramResult r = run("train run.yaml run.seed=2 checkpoint.allow_changes=true");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("run.seed: 1 → 2"), std::string::npos) << r.out;
}

TEST_F(TrainProgram, FaultsOfGenerateAndEval) {
  ASSERT_EQ(run("train run.yaml schedule.steps=1").code, 0);
  expect_fault("generate nowhere --prompt x", {"nowhere: there is no such checkpoint"});
  expect_fault("generate run --max-tokens 20 --prompt " + std::string(60, 'x'),
               {"prompt of 60 tokens and 20 new ones", "context of 64", "at most 4 tokens"});
  expect_fault("eval run nowhere", {"nowhere.idx", "No such file", "tessera data build"});
  expect_fault("eval run", {"nothing to do", "PREFIX of a dataset"}, 2);
  std::string pieces = get("run/checkpoints/1/pieces-0.bin");
  pieces.resize(pieces.size() / 2);
  put("run/checkpoints/1/pieces-0.bin", pieces);
  expect_fault("generate run/checkpoints/1 --prompt x", {"pieces-0.bin"});
}

TEST_F(TrainProgram, FullDiskLeavesThePreviousCheckpointWhole) {
  ASSERT_EQ(run("train run.yaml run.stop_after_steps=2").code, 0);
  const Files before = snapshot("run/checkpoints/2");
  const std::string line = "train run.yaml";
  expect_message(line, run(line, "ulimit -f 100;"), {"run/checkpoints/4", "too large"});
  EXPECT_TRUE(snapshot("run/checkpoints/2") == before);
  EXPECT_EQ(run("checkpoint verify run/checkpoints/2").code, 0);
  EXPECT_EQ(run(line).code, 0);
}

TEST_F(TrainProgram, NumbersThatAreNotFinite) {
  const std::string line =
      "train run.yaml optimizer.learning_rate=1e30 schedule.warmup_steps=0 schedule.steps=20 "
      "checkpoint.every_steps=1";
  expect_message(line, run(line),
                 {"at step 2", "layer 0, forward, micro-batch 0", "(matmul)",
                  "Last good checkpoint: run/checkpoints/1.", "a lower learning rate"});
}

// Losses of metrics.jsonl, as text: other numbers are times.
std::vector<std::string> losses(const std::string& metrics) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = metrics.find("\"loss\":", at)) != std::string::npos; ++at)
    out.push_back(metrics.substr(at, metrics.find(',', at) - at));
  return out;
}

TEST_F(TrainProgram, ASignalSavesAndTheRunGoesOnBitForBit) {
  const std::string steps = " schedule.steps=60 metrics.every_steps=1";
  ASSERT_EQ(run("train run.yaml run.directory=whole" + steps).code, 0);
  const std::string stopped = fmt::format(
      "cd {0}; {1} train run.yaml{2} >out.txt 2>&1 & pid=$!; cd {0}; until grep -q loss "
      "run/metrics.jsonl 2>/dev/null; do sleep 0.01; done; kill -TERM $pid; wait $pid",
      folder_.string(), TESSERA_PROGRAM, steps);
  EXPECT_EQ(std::system(stopped.c_str()), 0) << get("out.txt");
  EXPECT_NE(get("out.txt").find("stopped by a signal"), std::string::npos) << get("out.txt");
  EXPECT_LT(losses(get("run/metrics.jsonl")).size(), 60u);
  ASSERT_EQ(run("train run.yaml" + steps).code, 0);
  const auto whole = losses(get("whole/metrics.jsonl"));
  EXPECT_EQ(whole.size(), 60u);
  EXPECT_EQ(losses(get("run/metrics.jsonl")), whole);
  EXPECT_TRUE(get("run/checkpoints/60/pieces-0.bin") == get("whole/checkpoints/60/pieces-0.bin"));
}

}  // namespace
}  // namespace tessera
