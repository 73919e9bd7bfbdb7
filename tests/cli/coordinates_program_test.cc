// `tessera check-coordinates`: with mup the change of activations does not grow with the width.
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

class CoordinatesProgram : public ProgramFolder {
 protected:
  CoordinatesProgram() {
    put("run.yaml",
        "model: { family: llama, layers: 2, hidden: 32, heads: 4, feed_forward: 64, vocabulary: "
        "257, context: 32 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
        "batch: { global: 4, micro: 4 }\n"
        "optimizer: { learning_rate: 3.0e-3 }\n"
        "schedule: { steps: 4, warmup_steps: 0 }\n"
        "precision: fp32\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
  }
};

TEST_F(CoordinatesProgram, MupIsIndependentOfTheWidth) {
  const ProgramResult with = run("check-coordinates run.yaml --widths 32,64,128 model.mup.base=32");
  EXPECT_EQ(with.code, 0) << with.out << with.err;
  EXPECT_NE(with.out.find("layer.attn.qkv"), std::string::npos) << with.out;
  EXPECT_NE(with.out.find("head.logits"), std::string::npos) << with.out;
  EXPECT_NE(with.out.find("independent of the width"), std::string::npos) << with.out;
  const ProgramResult without = run("check-coordinates run.yaml --widths 32,64,128");
  EXPECT_EQ(without.code, 1) << without.out << without.err;
  EXPECT_NE(without.out.find("depends on the width"), std::string::npos) << without.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run")) << "files are left";
}

TEST_F(CoordinatesProgram, WidthsAreChecked) {
  for (const char* widths : {"64", "64,32", "a,b", "32,"}) {
    const ProgramResult r = run(std::string("check-coordinates run.yaml --widths ") + widths);
    EXPECT_EQ(r.code, 2) << widths << r.err;
    EXPECT_NE(r.err.find("--widths"), std::string::npos) << r.err;
  }
  const ProgramResult r = run("check-coordinates run.yaml --widths 32,36");
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_NE(r.err.find("not an integer"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace tessera::cli
