// `tessera verify`: right layouts agree with one rank.
#include <csignal>

#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

class VerifyProgram : public ProgramFolder {
 protected:
  VerifyProgram() {
    put("run.yaml",
        "model: { layers: 2, hidden: 64, heads: 4, vocabulary: 257, context: 64 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 64 }\n"
        "batch: { global: 4, micro: 1 }\n"
        "schedule: { steps: 4, warmup_steps: 0 }\n"
        "precision: fp32\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
  }
};

TEST_F(VerifyProgram, RightLayoutsAgreeWithOneRank) {
  for (const char* layout : {"layout.data=2 layout.zero=3", "layout.tensor=2 run.time_limit=0.01s",
                             "layout.pipeline=2 layout.pipeline_schedule=zero_bubble",
                             "layout.tensor=2 precision=bf16 layout.recompute=full",
                             // Rounding decides the smallest singular values of a direction.
                             "layout.tensor=2 precision=bf16_sr optimizer.kind=muon run.seed=3"}) {
    const ProgramResult r = run(std::string("verify run.yaml --steps 2 ") + layout);
    EXPECT_EQ(r.code, 0) << layout << "\n" << r.out << r.err;
    EXPECT_NE(r.out.find("2 ranks against 1, 2 steps"), std::string::npos) << r.out;
    EXPECT_NE(r.out.find("all values agree"), std::string::npos) << r.out;
    std::string said = r.out.substr(std::min(r.out.size(), r.out.find("agree: ") + 7));
    std::erase(said, ',');
    EXPECT_GT(std::atoi(said.c_str()), 500) << r.out;
  }
}

// The first steps overflow at this loss scale, so the loss scaler skips them.
TEST_F(VerifyProgram, StepsThatBothSidesSkipAreEqual) {
  const ProgramResult r =
      run("verify run.yaml --steps 3 layout.data=2 precision=fp16 loss_scale.initial=4294967296 "
          "loss_scale.hysteresis=1");
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("all values agree"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("≠"), std::string::npos) << r.out;
  EXPECT_TRUE(r.out.find("norm nan") != std::string::npos ||
              r.out.find("norm inf") != std::string::npos)
      << r.out;
}

// Gradients that are zero in exact arithmetic must be zero, not noise that differs between layouts:
// the balance loss if every expert has every token, and the weight of a single expert.
TEST_F(VerifyProgram, RoutersWithoutGradientAgree) {
  const std::string experts =
      "verify run.yaml --steps 2 layout.data=2 layout.expert=2 model.family=mixtral "
      "model.experts=4 "
      "model.feed_forward=64 model.router.balance_loss=0.01 model.experts_per_token=";
  for (const char* chosen : {"1", "4"}) {
    const ProgramResult r = run(experts + chosen);
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    EXPECT_NE(r.out.find("all values agree"), std::string::npos) << r.out;
  }
}

// Every rank of mpirun would start all ranks again.
TEST_F(VerifyProgram, UnderMpirunItAsksToBeStartedAlone) {
  const ProgramResult r =
      run("verify run.yaml layout.data=2", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 ");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("without mpirun"), std::string::npos) << r.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run")) << "files are left";
}

// The runs end, and their difference is not reported as one of the layouts.
TEST_F(VerifyProgram, ASignalInterruptsBothRuns) {
  const std::string until_a_step =
      "until cat run/*/one/metrics.jsonl 2>/dev/null | grep -q '\"step\":2'; do sleep 0.05; done; ";
  const std::string line = fmt::format(
      "cd {}; {} verify run.yaml --steps 100000 schedule.steps=100000 layout.data=2 "
      ">out 2>&1 & pid=$!; cd {}; {}kill -TERM $pid; wait $pid",
      folder_.string(), tessera_program(), folder_.string(), until_a_step);
  const int status = std::system(line.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  const std::string out = get("out");
  EXPECT_NE(out.find("interrupted by signal 15: the layouts were not compared"), std::string::npos)
      << out;
  EXPECT_EQ(out.find("≠"), std::string::npos) << out;
  EXPECT_EQ(out.find("tessera: "), std::string::npos) << out;
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "run"));
}

TEST_F(VerifyProgram, FaultsOfTheRunFileAreTold) {
  put("run.yaml", "");
  const ProgramResult r = run("verify run.yaml layout.data=2");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("model.layers is not given"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace tessera::cli
