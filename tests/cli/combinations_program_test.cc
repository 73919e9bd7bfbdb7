// Commands with features that change which weights, gradients and programs a run has: frozen
// weights and adapters, a ramp of batches.
#include "tests/cli/program.h"

namespace tessera {
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

TEST_F(Defects, A3_VerifyAgreesWithAdapters) {
  for (const char* layout : {"layout.pipeline=2", "layout.tensor=2",
                             "layout.pipeline=2 layout.pipeline_schedule=zero_bubble "
                             "compiler.fuse_residual_norm=false"}) {
    const ProgramResult r =
        expect_success(fmt::format("verify run.yaml --steps 2 lora.rank=4 {}", layout));
    EXPECT_NE(r.out.find("all values agree"), std::string::npos) << r.out;
  }
}

TEST_F(Defects, A3_VerifyAgreesOnARampOfBatches) {
  for (const char* layout : {"layout.data=2", "layout.pipeline=2 layout.zero=3"}) {
    const ProgramResult r = expect_success(fmt::format(
        "verify run.yaml --steps 3 batch.ramp=[2,4] batch.ramp_steps=1 batch.global=6 {}", layout));
    EXPECT_NE(r.out.find("all values agree"), std::string::npos) << r.out;
  }
}

}  // namespace
}  // namespace tessera
