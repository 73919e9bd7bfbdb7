// `tessera sweep` with real trials, two at once.
#include <csignal>
#include <set>

#include "report/sweep_data.h"
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kSweep =
    "sweep run.yaml optimizer.learning_rate=1e-5..1e-1 --trials 6 --halving 2 "
    "--finalists 1 ";

class SweepProgram : public ProgramFolder {
 protected:
  SweepProgram() {
    put("run.yaml",
        "model: { layers: 1, hidden: 32, heads: 2, vocabulary: 257, context: 32 }\n"
        "data: { tokenizer: t.json, train: [d], validation: [d], sequence_length: 32 }\n"
        "batch: { global: 4, micro: 4 }\n"
        "schedule: { steps: 32, warmup_steps: 2 }\n"
        "metrics: { validate_sequences: 8 }\n"
        "precision: fp32\n"
        "run: { directory: run, seed: 1, threads: 1 }\n");
  }

  Tree record(const std::string& directory = "run-sweep") const {
    return parse_json(get(directory + "/sweep.json"), "sweep.json");
  }
  // Sends the signal to the sweep when that file has step 50. Returns the exit code of a shell.
  int interrupted(const std::string& arguments, const char* signal, const char* file) const {
    const std::string line = fmt::format(
        "cd {}; {} {} > out.txt 2>&1 & p=$!; cd {}; until grep -qs '\"step\":50,' {}; do sleep "
        "0.02; done; kill -{} $p; wait $p; code=$?; sleep 2; exit $code",
        folder_.string(), tessera_program(), arguments, folder_.string(), file, signal);
    return WEXITSTATUS(std::system(line.c_str()));
  }
  static std::string table(const std::string& out) {
    const size_t from = out.find("rank  trial"), to = out.find("best: ");
    return out.substr(from, to - from);
  }
};

TEST_F(SweepProgram, HalvesTheTrialsAndWritesTheBestRun) {
  const ProgramResult r = run(kSweep);
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("6 trials to step 8, 3 trials to step 16, 1 trial to step 32: 88 of 192"),
            std::string::npos)
      << r.out;
  const report::SweepData sweep = report::read_sweep(folder_ / "run-sweep");
  std::multiset<int64_t> steps;
  for (const report::SweepTrial& t : sweep.trials) steps.insert(t.steps);
  EXPECT_EQ(steps, (std::multiset<int64_t>{8, 8, 8, 16, 16, 32}));
  EXPECT_EQ(sweep.steps_taken, 88);
  // The best run starts with the values of the best trial.
  const ProgramResult best = run("config print run-sweep/best.yaml --json");
  ASSERT_EQ(best.code, 0) << best.err;
  const Tree config = parse_json(best.out, "best.yaml");
  EXPECT_EQ(number_in(*config.find("optimizer")->find("learning_rate")),
            std::stod(sweep.trials.front().values[0]));
  EXPECT_EQ(*config.find("run")->find("directory")->as_string(), "run-best");
  EXPECT_EQ(run("train run-sweep/best.yaml run.stop_after_steps=2").code, 0);
  // A stopped trial has no checkpoints left, the best one has that of its last step.
  EXPECT_TRUE(std::filesystem::exists(sweep.trials.front().directory / "checkpoints/32"));
  const Path stopped = sweep.trials.back().directory;
  EXPECT_FALSE(std::filesystem::exists(stopped / "checkpoints"));
  const ProgramResult none =
      run(fmt::format("generate {} --prompt fox --max-tokens 1", stopped.string()));
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("this trial has no checkpoint. `tessera sweep` removes"),
            std::string::npos)
      << none.err;
}

// No step is repeated: a trial that continues at a rung has the loss of a run without a stop.
TEST_F(SweepProgram, ATrialOfSeveralRungsEqualsOneRun) {
  ASSERT_EQ(run(kSweep).code, 0);
  const report::SweepData sweep = report::read_sweep(folder_ / "run-sweep");
  const ProgramResult whole =
      run(fmt::format("train run.yaml run.directory=whole optimizer.learning_rate={}",
                      sweep.trials.front().values[0]));
  ASSERT_EQ(whole.code, 0) << whole.err;
  double loss = 0;
  for (const Tree& line : parse_json_lines(get("whole/metrics.jsonl"), "metrics"))
    if (const Tree* v = line.find("validation_loss")) loss = *number_in(*v);
  EXPECT_EQ(loss, sweep.trials.front().score);
  std::set<int64_t> steps;
  const std::string lines = read_file(sweep.trials.front().directory / "metrics.jsonl");
  for (const Tree& line : parse_json_lines(lines, "metrics"))
    if (line.find("loss") != nullptr) {
      EXPECT_TRUE(steps.insert(std::get<int64_t>(line.find("step")->value)).second);
    }
  EXPECT_EQ(steps.size(), 32u);
}

TEST_F(SweepProgram, TheSameSeedHasTheSameTableWithOneJobAndWithTwo) {
  const ProgramResult two = run(std::string(kSweep) + "--jobs 2 --out a");
  const ProgramResult one = run(std::string(kSweep) + "--jobs 1 --out b");
  const ProgramResult other = run(std::string(kSweep) + "--seed 2 --out c");
  ASSERT_EQ(two.code + one.code + other.code, 0) << one.err << two.err << other.err;
  EXPECT_EQ(table(two.out), table(one.out));
  EXPECT_NE(table(two.out), table(other.out));
}

TEST_F(SweepProgram, ContinuesAfterAnInterruption) {
  const std::string sweep =
      "sweep run.yaml optimizer.learning_rate=1e-3,3e-3,1e-2 --jobs 1 schedule.steps=1500 "
      "metrics.tensorboard=false ";
  EXPECT_EQ(interrupted(sweep + "--out a", "TERM", "a/trials/000/metrics.jsonl"), 128 + SIGTERM);
  EXPECT_NE(get("out.txt").find("the same command continues"), std::string::npos);
  EXPECT_EQ(interrupted(sweep + "--out a", "KILL", "a/trials/001/metrics.jsonl"), 128 + SIGKILL);
  const ProgramResult rest = run(sweep + "--out a");
  ASSERT_EQ(rest.code, 0) << rest.out << rest.err;
  EXPECT_NE(rest.out.find("known"), std::string::npos) << rest.out;
  const ProgramResult whole = run(sweep + "--out b");
  ASSERT_EQ(whole.code, 0) << whole.out << whole.err;
  EXPECT_EQ(table(rest.out), table(whole.out));
  const ProgramResult again = run(sweep + "--out a");
  EXPECT_EQ(table(again.out), table(whole.out));
  EXPECT_EQ(again.out.find("rung "), std::string::npos) << again.out;
}

TEST_F(SweepProgram, OtherDataIsAnotherSweep) {
  put("words.jsonl", "{\"prompt\":\"a\",\"response\":\"b\"}\n");
  const std::string sweep =
      "sweep run.yaml data.train=[] data.validation=[] data.instructions=[words.jsonl] "
      "'data.template={prompt}{response}' schedule.steps=4 --method grid "
      "optimizer.learning_rate=1e-3,1e-2 --out s";
  const ProgramResult first = run(sweep);
  ASSERT_EQ(first.code, 0) << first.out << first.err;
  const ProgramResult same = run(sweep);
  EXPECT_NE(same.out.find("2 results known"), std::string::npos) << same.out;
  put("words.jsonl", "{\"prompt\":\"a\",\"response\":\"c\"}\n");
  const ProgramResult other = run(sweep);
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("data differ"), std::string::npos) << other.err;
}

TEST_F(SweepProgram, AGridOfTwoKeysAndATrainingLoss) {
  const ProgramResult r =
      run("sweep run.yaml data.validation=[] schedule.steps=4 --method grid --points 2 "
          "optimizer.learning_rate=1e-3..1e-2 optimizer.beta2=0.95,0.99 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const Tree result = parse_json(r.out, "answer");
  EXPECT_EQ(result.find("trials")->as_list()->size(), 4u);
  EXPECT_EQ(*result.find("sweep")->find("score")->as_string(), "loss");
  EXPECT_NE(result.find("best"), nullptr);
}

TEST_F(SweepProgram, ARangeOfARealKeyIsRealEvenIfItsEndsAreIntegers) {
  const ProgramResult r =
      run("sweep run.yaml optimizer.weight_decay=0..1 --method grid --points 3 schedule.steps=3");
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("optimizer.weight_decay=0.5"), std::string::npos) << r.out;
}

TEST_F(SweepProgram, ADivergedTrialIsAnOutcome) {
  const ProgramResult r =
      run("sweep run.yaml optimizer.learning_rate=1e-3,1e30 optimizer.kind=sgd "
          "optimizer.clip_norm=0 --jobs 1");
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(table(r.out).find("diverged"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("best: trial 001"), std::string::npos) << r.out;
}

TEST_F(SweepProgram, TheReportHasAPlotAndATable) {
  ASSERT_EQ(run(kSweep).code, 0);
  const ProgramResult r = run("report run-sweep --out page.html");
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string page = get("page.html");
  EXPECT_NE(page.find("<section id=\"sweep\">"), std::string::npos);
  size_t circles = 0;
  for (size_t at = page.find("<circle cx"); at != std::string::npos;
       at = page.find("<circle cx", at + 1))
    ++circles;
  EXPECT_EQ(circles, 6u);
}

TEST_F(SweepProgram, NonsenseIsRefusedBeforeAnyTrial) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"batch.micro=1", "no key is varied"},
      {"optimizer.learning_rate=2..1", "the smaller one first"},
      {"optimizer.lerning_rate=1e-4..1e-2", "optimizer.learning_rate"},
      {"batch.global=3..5 batch.micro=4", "batch.global"},
      {"schedule.steps=10,20", "cannot be varied"},
      {"optimizer.learning_rate=1e-4..1e-2 --method bayes", "expected random or grid"},
      {"optimizer.learning_rate=1e-4..1e-2 --trials 0", "expected 1 to"},
      {"optimizer.learning_rate=1e-4..1e-2 --points 3", "requires --method grid"},
      {"optimizer.learning_rate=1e-4..1e-2 --halving 0", "expected 1 to"},
      {"optimizer.learning_rate=1e-4..1e-2 --finalists 2", "requires --halving"},
      {"optimizer.learning_rate=1e-4..1e-2 --halving 2 --finalists 0", "expected 1 to"},
      {"layout.data=1,2 batch.micro=1", "its layout has 2 ranks, but -n is 1"}};
  for (const auto& [arguments, message] : wrong) {
    const ProgramResult r = run(std::string("sweep run.yaml ") + arguments);
    EXPECT_NE(r.code, 0) << arguments;
    EXPECT_NE(r.err.find(message), std::string::npos) << arguments << r.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run-sweep")) << arguments;
  }
  ASSERT_EQ(run("sweep run.yaml optimizer.learning_rate=1e-3,1e-2 schedule.steps=2").code, 0);
  const ProgramResult other = run("sweep run.yaml optimizer.learning_rate=1e-3,1e-1");
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("another sweep"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace tessera::cli
