// Signals, files of users and numbers at the edges: a run stops with its work saved, writes no file
// that is not its own, and names what it does not accept.
#include <csignal>

#include "tests/cli/held_program.h"

namespace tessera::cli {
namespace {

class Edges : public TinyRun {
 protected:
  // Sends a signal to a long run after its first step. Returns its exit status as a shell has it.
  int status_after(const std::string& signal) const {
    put("signal.sh",
        fmt::format("ulimit -c 0\nenv --default-signal=QUIT {} train run.yaml "
                    "schedule.steps=1000000 checkpoint.every_steps=0 "
                    ">out.txt 2>&1 &\n"
                    "until grep -q grad_norm run/metrics.jsonl 2>/dev/null; do sleep 0.05; done\n"
                    "kill -s {} $!; wait $!; echo $? >status.txt\n",
                    tessera_program(), signal));
    fs::remove_all(folder_ / "run");
    EXPECT_EQ(
        std::system(
            fmt::format("cd {}; timeout 60 bash signal.sh 2>/dev/null", folder_.string()).c_str()),
        0);
    return std::stoi(get("status.txt"));
  }
  int64_t saved_step() const {
    const std::set<std::string> all = names("run/checkpoints");
    return all.size() == 1 ? std::stoll(*all.begin()) : -1;
  }
};

TEST_F(Edges, E4_SigquitAndRealTimeSignalsSaveTheLastStep) {
  for (const auto& [signal, status] :
       std::map<std::string, int>{{"QUIT", 128 + SIGQUIT}, {"RTMIN", 0}, {"RTMAX-3", 0}}) {
    SCOPED_TRACE(signal);
    EXPECT_EQ(status_after(signal), status) << get("out.txt");
    EXPECT_EQ(steps("run/metrics.jsonl"), range(1, saved_step()));
    EXPECT_EQ(run("checkpoint verify run").code, 0);
  }
}

TEST_F(Edges, E4_AnExistingFileForGradientsIsRefusedBeforeAnythingIsSetAside) {
  trained();
  put("mine.safetensors", "my work");
  fs::create_directory(folder_ / "notes");
  put("notes/index.json", "my notes");
  const Files before = snapshot("run");
  for (const char* there : {"mine.safetensors", "notes", "run/checkpoints/6"}) {
    const ProgramResult r =
        run(fmt::format("train run.yaml --from-step 6 run.dump_gradients={}", there));
    EXPECT_EQ(r.code, 1);
    expect_in(r.err, {fmt::format("run.dump_gradients = {}", there), "exists already"});
  }
  EXPECT_EQ(get("mine.safetensors"), "my work");
  EXPECT_EQ(get("notes/index.json"), "my notes");
  EXPECT_EQ(snapshot("run"), before);
  for (int i = 0; i < 2; ++i)  // a dump of an earlier run is replaced
    EXPECT_EQ(run(fmt::format("train run.yaml run.directory=d{} run.dump_gradients=g", i)).code, 0);
}

TEST_F(Edges, E4_PlanReplacesADrawingOnlyWithForce) {
  put("mine.svg", "my drawing");
  const std::string plan = "plan run.yaml --cluster a100-80gb --svg mine.svg";
  const ProgramResult r = run(plan);
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"mine.svg: exists already", "--force"});
  EXPECT_EQ(get("mine.svg"), "my drawing");
  EXPECT_EQ(run(plan + " --force").code, 0);
  expect_in(get("mine.svg"), {"<svg"});
}

TEST_F(Edges, PlanNeverReplacesItsRunFile) {
  const std::string before = get("run.yaml");
  const ProgramResult r = run("plan run.yaml --cluster a100-80gb --html ./run.yaml --force");
  EXPECT_NE(r.code, 0);
  expect_in(r.err, {"./run.yaml is the run file", "Choose another path"});
  EXPECT_EQ(get("run.yaml"), before);
  EXPECT_NE(run("plan run.yaml --cluster a100-80gb --html a --svg a").code, 0);
}

TEST_F(Edges, E4_ATraceOfAUserIsKept) {
  fs::create_directory(folder_ / "run");
  put("run/trace.json", "my trace");
  trained("metrics.trace_step=3");
  EXPECT_EQ(get("run/trace.json"), "my trace");
  expect_in(get("run/trace-3.json"), {"traceEvents"});
  expect_in(get("run/log.txt"), {"run/trace-3.json: your file trace.json is not overwritten"});
  fs::remove(folder_ / "run/trace.json");
  trained("metrics.trace_step=13 schedule.steps=14");
  trained("metrics.trace_step=15 schedule.steps=16");  // our own is replaced
  expect_in(get("run/trace.json"), {"step 15 of"});
}

TEST_F(Edges, E4_ARunAppendsToNoLinkAndNoFolder) {
  for (const char* name : {"metrics.jsonl", "log.txt"}) {
    SCOPED_TRACE(name);
    put("mine.txt", "{\"step\": 100}\n");
    fs::remove_all(folder_ / "run");
    fs::create_directory(folder_ / "run");
    fs::create_symlink(folder_ / "mine.txt", folder_ / "run" / name);
    ProgramResult r = run("train run.yaml");
    EXPECT_EQ(r.code, 1);
    expect_in(r.err,
              {fmt::format("run/{}: is a link, expected a regular file", name), "Move it away"});
    EXPECT_EQ(get("mine.txt"), "{\"step\": 100}\n");
    fs::remove(folder_ / "run" / name);
    fs::create_directory(folder_ / "run" / name);
    r = run("train run.yaml");
    EXPECT_EQ(r.code, 1);
    expect_in(r.err, {fmt::format("run/{}: is a folder, expected a regular file", name)});
  }
}

TEST_F(Edges, E3_NumbersOfOptionsAreDecimal) {
  trained("checkpoint.every_steps=1 checkpoint.keep=0");
  ProgramResult r = run("train run.yaml --from-step 010");
  EXPECT_EQ(r.code, 0) << r.err;
  expect_in(r.out, {"step 10 from"});
  r = run("train run.yaml --from-step 0x8");
  EXPECT_EQ(r.code, 2);
  expect_in(r.err, {"--from-step = ", "0x8", "expected an integer (digits only)"});
}

TEST_F(Edges, E4_ASeedIsTakenExactlyOrRefused) {
  const ProgramResult r = run("train run.yaml run.seed=9007199254740993");
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"run.seed", "9007199254740993", "expected an integer of at most 53 bits"});
}

TEST_F(Edges, E6_ABracketThatIsNotClosedIsNamed) {
  for (const auto& [key, open] :
       std::vector<std::pair<std::string, std::string>>{{"data.train=[d", "["},
                                                        {"optimizer={kind: adamw", "{"},
                                                        {"checkpoint.at_steps=[3,4", "["},
                                                        {"data.train=[{prefix: d]", "{"},
                                                        {"data.train=[d, \"e]", "\""},
                                                        {"optimizer.freeze=['it''s", "'"}}) {
    const ProgramResult r = run(fmt::format("config print run.yaml \"{}\"", [&, key = key] {
      std::string escaped;
      for (const char c : key) escaped += c == '"' ? std::string("\\\"") : std::string(1, c);
      return escaped;
    }()));
    EXPECT_EQ(r.code, 1) << key;
    expect_in(r.err, {"command line: " + key + ": '" + open + "' is not closed", "quotes"});
  }
  for (const char* key : {"'data.train=[d, d]'", "'optimizer={learning_rate: 1e-3}'",
                          "'run.name=a[b'", "'data.train=[\"d\", d]'"})
    EXPECT_EQ(run(fmt::format("config print run.yaml {}", key)).code, 0) << key;
}

TEST_F(Edges, E6_ARunFileIsNoTaskFile) {
  const ProgramResult r = run("train run.yaml evaluation.tasks=run.yaml");
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"run.yaml:1:10: unknown key 'model.layers'", "Known: kind",
                    "read as a task file", "docs/evaluation.md"});
}

TEST_F(Edges, E6_AWeightThatWasFrozenHasNoOptimizerState) {
  trained("optimizer.freeze=[embed.weight]");
  const ProgramResult r = run("train run.yaml schedule.steps=14");
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"run/checkpoints/12: has no optimizer state 'embed.weight|moment1'",
                    "was not trained when the checkpoint was saved", "Set optimizer.freeze",
                    "checkpoint.load=weights"});
}

TEST_F(Edges, E6_ALimitOfFileSizesIsNamed) {
  const ProgramResult r = run("train run.yaml checkpoint.retry_s=0", "ulimit -f 20;");
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"step 12 could not be saved", "File too large",
                    "Files of this process may have at most", "Raise the limit (ulimit -f)"});
}

TEST_F(Edges, E5_MoreThreadsThanCoresAreReportedOnce) {
  const ProgramResult r = run("train run.yaml run.threads=2", "taskset -c 0");
  EXPECT_EQ(r.code, 0) << r.err;
  const std::string what = "a rank has 2 threads, and may use 1 core";
  const size_t at = r.out.find(what);
  expect_in(r.out, {"warning: ", what, "Set run.threads to 1."});
  EXPECT_EQ(r.out.find(what, at + 1), r.out.npos);
  EXPECT_EQ(run("train run.yaml run.directory=b", "taskset -c 0").out.find("may use 1 core"),
            r.out.npos);
}

}  // namespace
}  // namespace tessera::cli
