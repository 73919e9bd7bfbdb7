// `tessera submit` with an sbatch of our own: what reaches it, and that no text of a run file is
// run as a command.
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

class Submit : public ProgramFolder {
 protected:
  Submit() {
    put("run.yaml",
        "model: { layers: 1, hidden: 32, heads: 4, vocabulary: 257, context: 64 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 64 }\n"
        "batch: { global: 4, micro: 4 }\n"
        "schedule: { steps: 4 }\n"
        "run: { directory: run }\n");
    sbatch("cat \"$1\" >seen && echo Submitted batch job 7");
  }
  void sbatch(const std::string& commands) const {
    put("sbatch", "#!/bin/sh\n" + commands + "\n");
    std::filesystem::permissions(folder_ / "sbatch", std::filesystem::perms::owner_all);
  }
  ProgramResult submit(const std::string& arguments) const {
    return run("submit run.yaml --nodes 1 " + arguments,
               fmt::format("PATH={}:$PATH", folder_.string()));
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
};

TEST_F(Submit, M4_APathIsNoCommand) {
  const ProgramResult r = submit("'run.directory=runs/x;touch PWNED;echo '");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_FALSE(exists("PWNED"));
  EXPECT_TRUE(exists("seen"));
}

TEST_F(Submit, M4_APathWithASpaceArrivesWhole) {
  const ProgramResult r = submit("'run.directory=runs/two words'");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("Submitted batch job 7"), std::string::npos) << r.out;
  EXPECT_NE(get("seen").find("/runs/two words/slurm-%j.txt'\n"), std::string::npos) << get("seen");
}

TEST_F(Submit, M4_LineBreaksAreRejected) {
  for (const char* key : {"run.name", "run.directory"}) {
    const ProgramResult r = submit(fmt::format("\"{}=$(printf 'x\\ntouch PWNED #')\"", key));
    EXPECT_NE(r.code, 0);
    EXPECT_NE(r.err.find(key), std::string::npos) << r.err;
  }
  EXPECT_FALSE(exists("seen"));
}

TEST_F(Submit, AJobWithOtherRanksThanTheLayoutIsRejectedBeforeItIsQueued) {
  const std::string two = "submit run.yaml --nodes 2 --tasks-per-node 2 --print ";
  const ProgramResult r = run(two);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("the layout has 1 rank "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("--tasks-per-node 2 starts 4. Use layout.data=4"), std::string::npos)
      << r.err;
  const ProgramResult odd = run(two + "batch.micro=1 layout.tensor=4 layout.data=2");
  EXPECT_NE(odd.err.find("Use layout.data=1"), std::string::npos) << odd.err;
  const ProgramResult fits = run(two + "batch.micro=1 layout.data=4");
  EXPECT_EQ(fits.code, 0) << fits.err;
}

TEST_F(Submit, ARejectedScriptIsAnError) {
  sbatch("echo 'invalid partition' >&2; exit 1");
  const ProgramResult r = submit("");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("invalid partition"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace tessera::cli
