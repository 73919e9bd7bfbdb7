// Two processes use one run directory or one prefix of a dataset: only one at a time writes.
#include <algorithm>

#include "tests/cli/held_program.h"

namespace tessera::cli {
namespace {

class Defects : public TinyRun {};

TEST_F(Defects, H3_OfTwoStartsAlwaysOneTrains) {
  put("two.sh",
      fmt::format("train() {{ exec {} train run.yaml schedule.steps=1000000 "
                  "metrics.tensorboard=false; }}\n"
                  "train >a.txt 2>&1 & a=$!; train >b.txt 2>&1 & b=$!\n"
                  "wait -n $a $b; echo ended $?\n"
                  "until grep -q loss run/metrics.jsonl 2>/dev/null; do sleep 0.05; done\n"
                  "kill -TERM $a $b 2>/dev/null\n"
                  "wait $a; echo $?; wait $b; echo $?\n",
                  tessera_program()));
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    fs::remove_all(folder_ / "run");
    ASSERT_EQ(
        std::system(
            fmt::format("cd {}; timeout 60 bash two.sh >codes.txt", folder_.string()).c_str()),
        0);
    const std::string codes = get("codes.txt");
    EXPECT_TRUE(codes == "ended 1\n1\n0\n" || codes == "ended 1\n0\n1\n")
        << codes << get("a.txt") << get("b.txt");
    expect_in(get("a.txt") + get("b.txt"), {"has owned it since"});
    EXPECT_EQ(run("checkpoint verify run").code, 0);
    const std::vector<int64_t> all = steps("run/metrics.jsonl");
    EXPECT_EQ(all, range(1, std::ssize(all)));
  }
}

// Two runs of one directory, of which `a` is stopped while `change` is made and `b` starts.
std::string script_of_two(const std::string& change) {
  return fmt::format(
      "train() {{ exec {} train run.yaml schedule.steps=1000000 metrics.tensorboard=false "
      "checkpoint.every_steps=200; }}\n"
      "until_step() {{ until grep -q grad_norm $1/metrics.jsonl 2>/dev/null; do sleep 0.05; done; "
      "}}\n"
      "train >a.txt 2>&1 & a=$!\n"
      "until_step run; kill -STOP $a\n"
      "{}\n"
      "train >b.txt 2>&1 & b=$!\n"
      "until grep -q 'first step done' b.txt; do sleep 0.05; done\n"
      "kill -CONT $a; wait $a; echo a $?\n"
      "kill -TERM $b; wait $b; echo b $?\n",
      tessera_program(), change);
}

class TwoOwners : public TinyRun {
 protected:
  void run_two(const std::string& change) const {
    put("two.sh", script_of_two(change));
    ASSERT_EQ(
        std::system(
            fmt::format("cd {}; timeout 60 bash two.sh >codes.txt", folder_.string()).c_str()),
        0);
    EXPECT_EQ(get("codes.txt"), "a 1\nb 0\n") << get("a.txt") << get("b.txt");
    EXPECT_EQ(run("checkpoint verify run").code, 0);
    const std::vector<int64_t> all = steps("run/metrics.jsonl");
    EXPECT_EQ(all, range(1, std::ssize(all)));
    EXPECT_EQ(names("run").count("run.lock"), 0u);
  }
  // The step that `a` reports as saved.
  int64_t saved_by_a() const {
    const std::string said = get("a.txt");
    const size_t at = said.find("is saved: ");
    const size_t begin = at == said.npos ? at : said.rfind("Step ", at);
    EXPECT_NE(begin, said.npos) << said;
    std::string digits;
    for (size_t i = begin + 5; begin != said.npos && i < at; ++i)
      if (std::isdigit(said[i]) != 0) digits += said[i];
    return digits.empty() ? -1 : std::stoll(digits);
  }
};

TEST_F(TwoOwners, E1_WhoLosesTheLockFileStopsAndSavesNextToTheDirectory) {
  run_two("rm run/run.lock");
  expect_in(get("a.txt"), {"run.directory = run", "run.lock was removed while process",
                           "owns it. This process stops."});
  std::string beside;
  for (const std::string& name : names(""))
    if (name.starts_with("run.process-")) beside = name;
  const int64_t step = saved_by_a();
  ASSERT_NE(beside, "") << get("a.txt");
  EXPECT_EQ(names(beside + "/checkpoints"), std::set<std::string>{std::to_string(step)});
  EXPECT_EQ(run("checkpoint verify " + beside).code, 0);
  const ProgramResult r =
      run(fmt::format("train run.yaml run.directory=more checkpoint.from={} checkpoint.load=all "
                      "checkpoint.resume=never schedule.steps=1000000 run.stop_after_steps={}",
                      beside, step + 2));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(steps("more/metrics.jsonl"), range(step + 1, step + 2));
}

TEST_F(TwoOwners, E1_WhoLosesTheNameOfTheDirectorySavesInTheRenamedOne) {
  run_two("mv run old");
  expect_in(get("a.txt"), {"run.directory = run", "was renamed to", "/old"});
  const int64_t step = saved_by_a();
  EXPECT_EQ(steps("old/metrics.jsonl"), range(1, step));
  EXPECT_EQ(names("old/checkpoints").count(std::to_string(step)), 1u);
  EXPECT_EQ(names("old").count("run.lock"), 0u);
  EXPECT_EQ(names("old/checkpoints").count("reserve-0.part"), 0u);
  const ProgramResult verified = run("checkpoint verify old");
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err << get("a.txt");
}

TEST_F(TwoOwners, E1_ALockFileThatIsOnlyMissingIsCreatedAgain) {
  put("one.sh",
      fmt::format(
          "train() {{ {} train run.yaml schedule.steps=1000000 metrics.tensorboard=false; }}\n"
          "train >a.txt 2>&1 & \n"
          "until grep -q grad_norm run/metrics.jsonl 2>/dev/null; do sleep 0.05; done\n"
          "rm run/run.lock\n"
          "until test -s run/run.lock; do sleep 0.05; done\n"
          "train >b.txt 2>&1; echo b $?\n"
          "kill -TERM $(grep -o '\"pid\":[0-9]*' run/run.lock | cut -d: -f2)\n"
          "wait %1; echo a $?\n",
          tessera_program()));
  ASSERT_EQ(std::system(
                fmt::format("cd {}; timeout 60 bash one.sh >codes.txt", folder_.string()).c_str()),
            0);
  EXPECT_EQ(get("codes.txt"), "b 1\na 0\n") << get("a.txt") << get("b.txt");
  expect_in(get("b.txt"), {"has owned it since"});
  EXPECT_EQ(names("run").count("run.lock"), 0u);
}

TEST_F(Defects, M7_OfTwoBuildsOfAPrefixASetIsNeverMixed) {
  std::string a, b;
  for (int i = 0; i < 3000; ++i) a += "aaaa aaaa aaaa aaaa\n";
  for (int i = 0; i < 7000; ++i) b += "bb bb bb bb bb\n";
  put("one.txt", a);
  put("two.txt", b);
  std::map<std::string, std::string> alone;
  for (const char* text : {"one.txt", "two.txt"}) {
    ASSERT_EQ(run(fmt::format("data build --force --tokenizer t.json --out x {}", text)).code, 0);
    alone[get("x.bin")] = get("x.idx") + get("x.json");
  }
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    const auto line = [&](const char* text) {
      return fmt::format("cd {}; {} data build --force --tokenizer t.json --out x {} 2>&1",
                         folder_.string(), tessera_program(), text);
    };
    Held first(line("one.txt")), second(line("two.txt"));
    const int c1 = first.wait(), c2 = second.wait();
    EXPECT_TRUE(c1 == 0 || c2 == 0);
    EXPECT_LE(std::max(c1, c2), 1);
    EXPECT_TRUE(alone.contains(get("x.bin")));
    EXPECT_EQ(alone[get("x.bin")], get("x.idx") + get("x.json"));
    EXPECT_FALSE(fs::exists(folder_ / "x.lock"));
  }
  EXPECT_EQ(names("").count("x.bin"), 1u);
}

}  // namespace
}  // namespace tessera::cli
