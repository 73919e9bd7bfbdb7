// `tessera tune` with real trials, two at once, and simulated ones.
#include <set>

#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kTune =
    "tune run.yaml --parallel 2 --knob batch.micro=1,2 --knob layout.recompute=none,full ";

class TuneProgram : public ProgramFolder {
 protected:
  TuneProgram() {
    put("run.yaml",
        "model: { layers: 1, hidden: 32, heads: 2, vocabulary: 257, context: 32 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
        "batch: { global: 2, micro: 1 }\n"
        "schedule: { steps: 100000000, warmup_steps: 0 }\n"
        "precision: fp32\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
  }

  std::vector<Tree> trials() const {
    return *parse_json(get("run/tune.json"), "tune.json").find("trials")->as_list();
  }
  bool leftovers() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run"))
      if (entry.path().filename().string().starts_with("trials.")) return true;
    return false;
  }
};

std::string outcome(const Tree& trial) {
  return std::get<std::string>(trial.find("outcome")->value);
}

TEST_F(TuneProgram, TriesEveryPointOnceAndGoesOnWhereItWas) {
  // A folder of the user.
  std::filesystem::create_directories(folder_ / "run/trials/0/run");
  put("run/trials/0/run/metrics.jsonl", "{\"step\":1,\"step_s\":1e9}\n");
  const ProgramResult first = run(std::string(kTune) + "--steps 3 --trials 3");
  ASSERT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_EQ(trials().size(), 3u);
  EXPECT_EQ(get("run/trials/0/run/metrics.jsonl"), "{\"step\":1,\"step_s\":1e9}\n");
  const ProgramResult second = run(std::string(kTune) + "--steps 3 --trials 9 --json");
  ASSERT_EQ(second.code, 0) << second.out << second.err;
  EXPECT_NE(second.err.find("3 known"), std::string::npos) << second.err;
  std::set<std::string> points;
  for (const Tree& t : trials()) {
    EXPECT_EQ(outcome(t), "ran");
    const double seconds = std::get<double>(t.find("seconds")->value);
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 1e8);
    points.insert(to_json(*t.find("point")));
  }
  EXPECT_EQ(points.size(), 4u);
  EXPECT_EQ(trials().size(), 4u);
  EXPECT_FALSE(leftovers());
  EXPECT_NE(parse_json(second.out, "answer").find("best"), nullptr);
}

TEST_F(TuneProgram, ATrialCountsOnlyForTheSameRunMachineRanksAndSteps) {
  constexpr const char* kKnobs = " --knob batch.micro=1,2 --trials 2 ";
  const std::vector<std::string> tunings = {"--simulate --cluster h100",
                                            "--steps 3",
                                            "--steps 2",
                                            "--steps 2 model.hidden=64",
                                            "--simulate --cluster h100 layout.data=2 -n 2",
                                            "--simulate --cluster a100-80gb"};
  size_t expected = 0;
  for (const std::string& tuning : tunings) {
    const ProgramResult r = run("tune run.yaml" + std::string(kKnobs) + tuning);
    ASSERT_EQ(r.code, 0) << tuning << r.out << r.err;
    EXPECT_EQ(r.out.find("known"), std::string::npos) << tuning << r.out;
    // With two ranks, a micro-batch of 2 does not divide the batch.
    expected += tuning.find("-n 2") == std::string::npos ? 2 : 1;
    EXPECT_EQ(trials().size(), expected) << tuning;
  }
  for (const std::string& tuning : tunings) {
    const ProgramResult r = run("tune run.yaml" + std::string(kKnobs) + tuning);
    EXPECT_NE(r.out.find("known"), std::string::npos) << tuning << r.out;
  }
  EXPECT_EQ(trials().size(), expected);
}

TEST_F(TuneProgram, TheKeysOfTheBestMakeARunAsPrinted) {
  const ProgramResult r =
      run("tune run.yaml -n 2 --simulate --cluster h100 --trials 9 batch.global=4 "
          "--knob layout.tensor=1 --knob batch.micro=1,2");
  ASSERT_EQ(r.code, 0) << r.err;
  const size_t at = r.out.find("use it:  ");
  ASSERT_NE(at, std::string::npos) << r.out;
  const std::string keys = r.out.substr(at + 9, r.out.find('\n', at) - at - 9);
  EXPECT_NE(keys.find("layout.data=2"), std::string::npos) << keys;
  const ProgramResult plan = run("plan run.yaml --cluster h100 " + keys);
  EXPECT_EQ(plan.code, 0) << plan.err;
  const ProgramResult resolved = run("config print run.yaml --json " + keys);
  const Tree config = parse_json(resolved.out, "config print");
  EXPECT_EQ(to_json(*config.find("layout")->find("data")), "2");
  EXPECT_EQ(to_json(*config.find("batch")->find("global")), "4");
}

TEST_F(TuneProgram, SimulatedTrialsNeedNoData) {
  put("plan.yaml",
      "model: { layers: 2, hidden: 64, heads: 4, vocabulary: 257, context: 32 }\n"
      "batch: { global: 4 }\n"
      "run: { directory: run }\n");
  const std::string tune = "tune plan.yaml -n 2 --trials 2 --knob batch.micro=1,2 ";
  const ProgramResult simulated = run(tune + "--simulate --cluster h100");
  EXPECT_EQ(simulated.code, 0) << simulated.err;
  const ProgramResult real = run(tune);
  EXPECT_EQ(real.code, 1);
  EXPECT_NE(real.err.find("2 of 2 combinations of the knobs are rejected"), std::string::npos)
      << real.err;
  EXPECT_NE(real.err.find("data.train is not given"), std::string::npos) << real.err;
}

TEST_F(TuneProgram, ATimeOutIsAnOutcomeAndNothingStaysBehind) {
  const ProgramResult r = run(std::string(kTune) + "--steps 100000000 --trials 2 --limit 0.2");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("none of 2 trials succeeded"), std::string::npos) << r.err;
  ASSERT_EQ(trials().size(), 2u);
  for (const Tree& t : trials()) EXPECT_EQ(outcome(t), "time-out");
  EXPECT_FALSE(leftovers());
}

TEST_F(TuneProgram, CtrlCEndsTheTrialsWithIt) {
  const ProgramResult r = run(std::string(kTune) + "--steps 100000000 --trials 2",
                              "timeout --preserve-status -s INT 4");
  EXPECT_EQ(r.code, 130) << r.err;
  EXPECT_NE(r.out.find("the same command resumes"), std::string::npos) << r.out;
  EXPECT_FALSE(leftovers());
}

TEST_F(TuneProgram, NonsenseIsRefusedBeforeAnyTrial) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"--trials 0", "expected 1 or more"},
      {"--parallel -2", "expected 1 or more"},
      {"--steps 1", "expected 2 or more"},
      {"--limit 0", "expected more than 0 seconds"},
      {"--perturb 0.3", "requires --simulate"},
      {"--simulate", "needs --cluster"},
      {"--limit soon", "expected a number"},
      {"--trials 2.5", "expected an integer"},
      {"--knob batch.mirco=1", "batch.micro"},
      {"--cluster nowhere", "'nowhere' is neither a file"},
  };
  for (const auto& [option, wanted] : wrong) {
    const ProgramResult r = run("tune run.yaml " + std::string(option));
    EXPECT_NE(r.code, 0) << option;
    EXPECT_NE(r.err.find(wanted), std::string::npos) << option << ": " << r.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/tune.json"));
}

}  // namespace
}  // namespace tessera::cli
