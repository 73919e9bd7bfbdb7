// Commands with features that change which weights, gradients and programs a run has: frozen
// weights and adapters, a ramp of batches.
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

class Defects : public ProgramFolder {
 protected:
  Defects() {
    put("run.yaml",
        "model: { layers: 2, hidden: 32, heads: 4, vocabulary: 257, context: 32 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
        "batch: { global: 4, micro: 1 }\n"
        "schedule: { steps: 4, warmup_steps: 0 }\n"
        "precision: fp32\n"
        "metrics: { tensorboard: false }\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
  }

  ProgramResult expect_success(const std::string& arguments) {
    ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.out << r.err;
    return r;
  }

  const std::string cluster_ = TESSERA_CLUSTERS "/h100.yaml";
};

constexpr const char* kFrozen[] = {"lora.rank=4",
                                   "lora.rank=2 'lora.targets=[\"*.attn.*\"]'",
                                   "'optimizer.freeze=[embed.*]'",
                                   "'optimizer.freeze=[layer.*]'",
                                   "'optimizer.freeze=[embed.*,layer.*,head.norm.*]'",
                                   "'optimizer.freeze=[\"*.bias\"]' optimizer.kind=adafactor"};

TEST_F(Defects, A1_PlanWithFrozenWeights) {
  for (const char* frozen : kFrozen) {
    const std::string rest = fmt::format(" --cluster {} {}", cluster_, frozen);
    const ProgramResult one = expect_success("plan run.yaml layout.pipeline=2" + rest);
    EXPECT_NE(one.out.find("limited by"), std::string::npos) << one.out;
    const ProgramResult best = expect_success("plan run.yaml --search --devices 4" + rest);
    EXPECT_NE(best.out.find("use it:"), std::string::npos) << best.out;
  }
}

TEST_F(Defects, A1_TrainWithTheBestLayoutAndFrozenWeights) {
  for (const char* frozen : kFrozen)
    expect_success(
        fmt::format("train run.yaml checkpoint.resume=never schedule.steps=1 "
                    "layout.search=true layout.cluster={} {}",
                    cluster_, frozen));
}

// data × micro divides every batch of the ramp.
TEST_F(Defects, A1_TheBestLayoutTakesTheRamp) {
  for (const char* ramp : {"batch.warmup_sizes=[2] batch.warmup_steps_per_size=1",
                           "batch.warmup_sizes=[6,3] batch.warmup_steps_per_size=2"})
    expect_success(
        fmt::format("train run.yaml checkpoint.resume=never schedule.steps=1 batch.micro=1 "
                    "batch.global=12 layout.search=true layout.cluster={} {}",
                    cluster_, ramp));
}

TEST_F(Defects, B11_PlanNeedsNoDataSet) {
  put("bare.yaml",
      "model: { preset: pythia-14m }\n"
      "batch: { global: 4, micro: 1 }\n");
  const std::string cluster = " --cluster " + cluster_;
  expect_success("plan bare.yaml" + cluster);
  expect_success("plan bare.yaml --search --devices 4" + cluster);
  expect_success("compile bare.yaml --check");
  const ProgramResult train = run("train bare.yaml");
  EXPECT_EQ(train.code, 1);
  EXPECT_NE(train.err.find("data.train is not given"), std::string::npos) << train.err;
  const ProgramResult vocabulary = run("plan bare.yaml model.vocabulary=0" + cluster);
  EXPECT_EQ(vocabulary.code, 1);
  EXPECT_NE(vocabulary.err.find("model.vocabulary = 0"), std::string::npos) << vocabulary.err;
}

// GPUs have less memory than their name suggests, and a plan leaves some of it free.
TEST_F(Defects, B12_PlanLeavesHeadroom) {
  const ProgramResult r = expect_success("plan run.yaml --cluster " + cluster_);
  EXPECT_NE(r.out.find("of 77.5 GiB, 2.0 % of 79.1 kept free"), std::string::npos) << r.out;
  // Fits without the headroom only.
  const std::string small = "plan run.yaml --set device.outside_bytes=1e6 --cluster " + cluster_;
  const Tree plan = parse_json(expect_success(small + " --json").out, "plan");
  const int64_t peak = std::get<int64_t>(plan.find("memory")->find("peak_bytes")->value);
  const std::string tight = fmt::format(
      "{} --set device.memory_bytes={} --set device.headroom=", small, peak + peak / 100);
  expect_success(tight + "0");
  const ProgramResult refused = run(tight + "0.03");
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("excluding 3.0 % headroom"), std::string::npos) << refused.err;
}

TEST_F(Defects, C_PlansOfSmallModelsHaveUnits) {
  const ProgramResult r = expect_success(
      fmt::format("plan run.yaml compiler.gemm_dtype=fp8 precision=bf16 --cluster {}", cluster_));
  for (const char* wrong : {"0.0 TFLOP", "0.0 hours", "B parameters", "weights 0.0", "0.0 % of"})
    EXPECT_EQ(r.out.find(wrong), std::string::npos) << wrong << "\n" << r.out;
  EXPECT_NE(r.out.find("of the 16-bit peak"), std::string::npos) << r.out;
  const ProgramResult links =
      expect_success(fmt::format("plan run.yaml layout.tensor=4 --cluster {} --set "
                                 "node.bytes_per_s=1.0e6 --set network.bytes_per_s=1.0e9",
                                 cluster_));
  EXPECT_NE(links.out.find("(1 MB/s within a node, 1 GB/s per node)"), std::string::npos)
      << links.out;
}

TEST_F(Defects, C_TheSearchSaysWhatTheNextLayoutTakes) {
  const ProgramResult r =
      expect_success(fmt::format("plan run.yaml --search --devices 2 --cluster {}", cluster_));
  // "takes 1.23 ms longer:", then a line for each difference.
  const size_t at = r.out.find(" takes "), end = r.out.find(" longer:\n  +");
  ASSERT_NE(at, std::string::npos) << r.out;
  ASSERT_NE(end, std::string::npos) << r.out;
  ASSERT_LT(at, end) << r.out;
  EXPECT_GT(std::stod(r.out.substr(at + 7)), 0) << r.out;
}

TEST_F(Defects, L7_PlanRefusesDevicesThatNoMachineHas) {
  const ProgramResult r =
      run("plan run.yaml --search --devices 9223372036854775807 --cluster " + cluster_);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("expected 1 to 1,048,576"), std::string::npos) << r.err;
  EXPECT_EQ(run("plan run.yaml --search --devices 1048576 --cluster " + cluster_).code, 1);
}

// An adapter of a packed weight: its second matrix has the parts of the weight, its first has none.
TEST_F(Defects, A1_AdafactorTrainsAdaptersOfPackedWeights) {
  const std::string common =
      "verify run.yaml --steps 2 lora.rank=4 optimizer.kind=adafactor optimizer.epsilon=1e-8 "
      "layout.tensor=2 model.family=";
  expect_success(common + "llama");
  expect_success(common + "qwen2 layout.zero=2 layout.data=2");
}

TEST_F(Defects, A3_VerifyAgreesWithAdapters) {
  for (const char* layout : {"layout.pipeline=2", "layout.tensor=2",
                             "layout.pipeline=2 layout.pipeline_schedule=zero_bubble "
                             "compiler.fuse_residual_norm=false"}) {
    const ProgramResult r =
        expect_success(fmt::format("verify run.yaml --steps 2 lora.rank=4 {}", layout));
    EXPECT_NE(r.out.find("all values agree"), std::string::npos) << r.out;
  }
}

TEST_F(Defects, VerifyAgreesWithKeysThatLeaveInfinitiesOrNaN) {
  for (const char* keys : {"layout.data=2 compiler.attention=unfused",
                           "layout.tensor=2 compiler.attention=unfused precision=bf16",
                           "layout.pipeline=2 compiler.poison=true"}) {
    const ProgramResult r = expect_success(fmt::format("verify run.yaml --steps 1 {}", keys));
    EXPECT_NE(r.out.find("all values agree"), std::string::npos) << r.out;
  }
  const ProgramResult none = run("verify run.yaml --steps 0 layout.data=2");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--steps is 0, expected at least 1"), std::string::npos) << none.err;
}

TEST_F(Defects, A3_VerifyAgreesOnARampOfBatches) {
  for (const char* layout : {"layout.data=2", "layout.pipeline=2 layout.zero=3"}) {
    const ProgramResult r =
        expect_success(fmt::format("verify run.yaml --steps 3 batch.warmup_sizes=[2,4] "
                                   "batch.warmup_steps_per_size=1 batch.global=6 {}",
                                   layout));
    EXPECT_NE(r.out.find("all values agree"), std::string::npos) << r.out;
  }
}

}  // namespace
}  // namespace tessera::cli
