#include "launch/sbatch.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace tessera::launch {
namespace {

BatchJob sample() {
  BatchJob job;
  job.name = "pythia-70m";
  job.nodes = 2;
  job.tasks_per_node = 4;
  job.cpus_per_task = 8;
  job.time = "4:00:00";
  job.more = {"--mem=0"};
  job.folder = "/runs/a b";
  job.launch = {"/bin/tessera", "launch", "run.yaml", "data.train=[a b]"};
  return job;
}

TEST(Sbatch, Lines) {
  const std::string s = sbatch_script(sample());
  for (const char* line :
       {"#!/bin/bash\n#SBATCH --job-name=pythia-70m\n#SBATCH --nodes=2\n#SBATCH "
        "--ntasks-per-node=4\n#SBATCH --cpus-per-task=8\n#SBATCH --time=4:00:00\n#SBATCH --mem=0\n",
        "#SBATCH --requeue ", "#SBATCH --open-mode=append ", "#SBATCH --signal=B:TERM@180 ",
        "#SBATCH '--output=/runs/a b/slurm-%j.txt'\n",
        "/bin/tessera launch run.yaml 'data.train=[a b]' -n \"$SLURM_NTASKS\" --log-dir "
        "'/runs/a "
        "b'/ranks &\n"})
    EXPECT_NE(s.find(line), std::string::npos) << line << "\nin\n" << s;
}

TEST(Sbatch, M4_TextsAreQuotedForSbatch) {
  BatchJob job = sample();
  job.name = "a b; touch PWNED #";
  job.more = {"--comment='two words'", "-p gpu --exclusive"};
  job.folder = "/runs/50% #1";
  const std::string s = sbatch_script(job);
  for (const char* line :
       {"#SBATCH '--job-name=a b; touch PWNED #'\n", "#SBATCH '--comment=two words'\n",
        "#SBATCH -p gpu --exclusive\n", "#SBATCH '--output=/runs/50%% #1/slurm-%j.txt'\n"})
    EXPECT_NE(s.find(line), std::string::npos) << line << "\nin\n" << s;
}

TEST(Sbatch, GpusAndSetupCommands) {
  BatchJob job = sample();
  job.gpus_per_node = 8;
  job.setup = {"module load openmpi/5", "source env.sh"};
  const std::string s = sbatch_script(job);
  EXPECT_NE(s.find("\n#SBATCH --gpus-per-node=8\n"), std::string::npos) << s;
  const size_t setup = s.find("\nmodule load openmpi/5\nsource env.sh\n");
  EXPECT_NE(setup, std::string::npos) << s;
  EXPECT_GT(setup, s.rfind("\n#SBATCH"));
  EXPECT_LT(setup, s.find("/bin/tessera launch"));
}

TEST(Sbatch, M4_ControlCharactersAreRejected) {
  const auto rejects = [](auto change) {
    BatchJob job = sample();
    change(job);
    EXPECT_THROW(sbatch_script(job), Error);
  };
  rejects([](BatchJob& j) { j.name = "job\ntouch PWNED #"; });
  rejects([](BatchJob& j) { j.folder = "/runs/x\ntouch PWNED"; });
  rejects([](BatchJob& j) { j.folder = "/runs/x\\y"; });
  rejects([](BatchJob& j) { j.time = "1:00\r"; });
  rejects([](BatchJob& j) { j.partition = "a\n"; });
  rejects([](BatchJob& j) { j.account = "a\x7f"; });
  rejects([](BatchJob& j) { j.more = {"--mem=0\ntouch PWNED"}; });
  rejects([](BatchJob& j) { j.launch.emplace_back("a\nb"); });
}

// Runs the script with a launch and an scontrol of our own: what it does for each ending.
class SbatchRun : public testing::Test {
 protected:
  SbatchRun() {
    std::string name = std::filesystem::temp_directory_path() / "tessera_sbatch.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    write_file(folder_ / "scontrol",
               "#!/bin/sh\necho \"$@\" >>" + (folder_ / "said").string() + "\n");
    std::filesystem::permissions(folder_ / "scontrol", std::filesystem::perms::owner_all);
  }
  ~SbatchRun() override { std::filesystem::remove_all(folder_); }

  // What scontrol was told, and the script's exit code after it.
  std::string run(const std::string& launch, int restarts, const std::string& after = "") {
    BatchJob job = sample();
    job.folder = folder_.string();
    job.launch = {"bash", "-c", launch};
    write_file(folder_ / "job", sbatch_script(job));
    std::filesystem::remove(folder_ / "said");
    const std::string line = fmt::format(
        "cd {0}; PATH={0}:$PATH SLURM_JOB_ID=7 SLURM_NTASKS=2 SLURM_RESTART_COUNT={1} bash job "
        ">/dev/null & job=$!; {2}; wait $job; echo $? >{0}/code",
        folder_.string(), restarts, after.empty() ? ":" : after);
    EXPECT_EQ(std::system(("bash -c '" + line + "'").c_str()), 0);
    const bool said = std::filesystem::exists(folder_ / "said");
    return (said ? read_file(folder_ / "said") : "") + read_file(folder_ / "code");
  }
  Path folder_;
};

TEST_F(SbatchRun, ARunThatEndsIsOver) { EXPECT_EQ(run("exit 0", 0), "0\n"); }
TEST_F(SbatchRun, ALostRunGoesBack) { EXPECT_EQ(run("exit 1", 2), "requeue 7\n0\n"); }
TEST_F(SbatchRun, ButNotForEver) { EXPECT_EQ(run("exit 1", 3), "1\n"); }
TEST_F(SbatchRun, AMistakeInTheCommandDoesNot) { EXPECT_EQ(run("exit 2", 0), "2\n"); }
TEST_F(SbatchRun, ARunWhoseNumbersFailedDoesNotGoBack) { EXPECT_EQ(run("exit 3", 0), "3\n"); }
TEST_F(SbatchRun, AtTheTimeLimitItSavesAndGoesBack) {
  const std::string launch = "trap \"sleep 0.3; exit 0\" TERM; while :; do sleep 0.1; done";
  EXPECT_EQ(run(launch, 9, "sleep 0.7; kill -TERM $job"), "requeue 7\n0\n");
}

}  // namespace
}  // namespace tessera::launch
