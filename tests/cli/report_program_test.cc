// `tessera report` of runs that the program itself made.
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

class ReportProgram : public ProgramFolder {
 protected:
  ReportProgram() {
    put("run.yaml",
        "run: { name: r }\n"
        "model: { family: llama, layers: 2, hidden: 32, heads: 2, feed_forward: 48, context: 32, "
        "vocabulary: 0 }\n"
        "data: { tokenizer: t.json, train: [d], validation: [d], sequence_length: 32 }\n"
        "batch: { global: 4, micro: 2 }\n"
        "schedule: { steps: 6 }\n"
        "checkpoint: { every_steps: 2 }\n"
        "metrics: { validate_every_steps: 3, trace_step: 4 }\n"
        "precision: fp32\n");
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ReportProgram, ShowsWhatARunRecorded) {
  ASSERT_EQ(run("train run.yaml run.stop_after_steps=5").code, 0);
  ASSERT_EQ(run("train run.yaml").code, 0);
  const std::string log = get("runs/r/log.txt"), version = run("--version").out;
  for (const char* step : {" step 1/5 loss ", " step 5/5 loss ", " step 6/6 loss "})
    EXPECT_TRUE(has(log, step)) << step << log;
  EXPECT_TRUE(has(get("runs/r/run.yaml"), version.substr(0, version.size() - 1))) << version;
  const ProgramResult r = run("report runs/r");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  EXPECT_TRUE(has(r.out, "report.html: 1 run")) << r.out;
  const std::string page = get("report.html");
  EXPECT_TRUE(has(page, "6 of 6"));
  EXPECT_TRUE(has(page, "step 4 of r"));  // the trace
  EXPECT_TRUE(has(page, "<td>matmul</td>"));
  EXPECT_TRUE(has(page, "<td>weights</td>"));  // the planned memory, from the log
  EXPECT_TRUE(has(page, "<td>arena</td>"));
  EXPECT_TRUE(has(page, "process on rank 0, at most"));
  EXPECT_TRUE(has(page, "resumed at step 5 from runs/r/checkpoints/5"));
  EXPECT_TRUE(has(page, "checkpoints were saved, the last one of step 6"));
  EXPECT_TRUE(has(page, "optimizer.learning_rate"));
  EXPECT_TRUE(has(page, "tokens · this run reads"));
  EXPECT_TRUE(has(page, "validation loss, d"));
}

TEST_F(ReportProgram, ShowsTheLossOfEachDatasetAndTheMeasuredMemory) {
  for (const char* end : {".bin", ".idx"})
    std::filesystem::copy_file(folder_ / ("d" + std::string(end)),
                               folder_ / ("e" + std::string(end)));
  const ProgramResult trained =
      run("train run.yaml 'data.train=[d, e]' metrics.source_loss_every_steps=2");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::string metrics = get("runs/r/metrics.jsonl");
  for (const char* line : {"{\"step\":2,\"source\":\"d\",\"source_loss\":",
                           "{\"step\":6,\"source\":\"e\",\"source_loss\":"})
    EXPECT_TRUE(has(metrics, line)) << line << metrics;
  EXPECT_FALSE(has(metrics, "{\"step\":3,\"source\""));
  ASSERT_EQ(run("report runs/r").code, 0);
  const std::string page = get("report.html");
  EXPECT_TRUE(has(page, "training loss, e"));
  EXPECT_TRUE(has(page, "\"kind\":\"source\",\"name\":\"d\",\"x\":[2,4,6]"));
  // Every line of the memory table has a planned and a measured value.
  const size_t table = page.find("memory of a rank");
  ASSERT_NE(table, std::string::npos);
  EXPECT_FALSE(has(page.substr(table, page.find("</table>", table) - table), "–"));
}

// A step whose noise scale is measured is in the metrics, also between those of
// metrics.every_steps.
TEST_F(ReportProgram, RecordsStepsWithANoiseScale) {
  ASSERT_EQ(run("train run.yaml metrics.every_steps=4 metrics.noise_scale_every_steps=3").code, 0);
  std::vector<int64_t> steps;
  for (const Tree& line : parse_json_lines(get("runs/r/metrics.jsonl"), "metrics"))
    if (line.find("loss") != nullptr)
      steps.push_back(*std::get_if<int64_t>(&line.find("step")->value));
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 4, 6}));
}

TEST_F(ReportProgram, ComparesRunsAndPlans) {
  ASSERT_EQ(run("train run.yaml run.name=a").code, 0);
  ASSERT_EQ(run("train run.yaml run.name=b batch.micro=4").code, 0);
  const ProgramResult r = run("report runs/a runs/b --out both.html --cluster h100");
  EXPECT_EQ(r.code, 0) << r.err;
  const std::string page = get("both.html");
  EXPECT_TRUE(has(page, "<td>batch.micro</td><td class=\"wrap\">2</td><td class=\"wrap\">4</td>"));
  EXPECT_TRUE(has(page, "simulated on h100"));
  EXPECT_TRUE(has(page, "The planned step"));
}

TEST_F(ReportProgram, PlansOnTheMachineOfTheRun) {
  ASSERT_EQ(run("train run.yaml metrics.validate_sequences=4 run.name=a layout.cluster=h100").code,
            0);
  const ProgramResult r = run("report runs/a");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(has(get("report.html"), "simulated on h100"));
  ASSERT_EQ(
      run("train run.yaml metrics.validate_sequences=4 run.name=b layout.cluster=none.yaml").code,
      0);
  const ProgramResult none = run("report runs/b --force");
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.err, "");
  EXPECT_FALSE(has(get("report.html"), "The planned step"));
  put("none.yaml", "not: a machine\n");
  const ProgramResult damaged = run("report runs/b --force");
  EXPECT_EQ(damaged.code, 0);
  EXPECT_TRUE(has(damaged.err, "warning: the page has no planned step")) << damaged.err;
}

TEST_F(ReportProgram, PlansAsAPage) {
  const std::string plan = "plan run.yaml --cluster h100 layout.pipeline=2 ";
  const ProgramResult one = run(plan + "--html one.html");
  EXPECT_EQ(one.code, 0) << one.err;
  const std::string page = get("one.html");
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(has(page, "<td>GEMMs</td>"));
  EXPECT_TRUE(has(page, "<td>activations</td>"));
  EXPECT_TRUE(has(page, "stage 1</text>"));  // of the timeline
  EXPECT_FALSE(has(page, "Why layouts were left out"));
  EXPECT_EQ(run(plan + "--html one.html").code, 1);  // the file exists
  EXPECT_EQ(run(plan + "--html one.html --force").code, 0);

  const ProgramResult all =
      run("plan run.yaml --cluster h100 --search --devices 4 --html all.html");
  EXPECT_EQ(all.code, 0) << all.err;
  const std::string search = get("all.html");
  EXPECT_TRUE(has(search, "\"front\":1")) << all.out;
  EXPECT_TRUE(has(search, "Pareto front"));
  // The keys of the first layout are those that the command proposes.
  const size_t use = all.out.find("use it:  ") + 9;
  EXPECT_TRUE(has(search, all.out.substr(use, all.out.find('\n', use) - use))) << all.out;
}

TEST_F(ReportProgram, NeverReplacesAFileByItself) {
  std::filesystem::create_directories(folder_ / "runs/x");
  put("runs/x/metrics.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":");
  put("mine.html", "mine");
  const ProgramResult kept = run("report runs/x --out mine.html");
  EXPECT_EQ(kept.code, 1);
  EXPECT_TRUE(has(kept.err, "--force")) << kept.err;
  EXPECT_EQ(get("mine.html"), "mine");
  const ProgramResult replaced = run("report runs/x --out mine.html --force");
  EXPECT_EQ(replaced.code, 0);
  EXPECT_TRUE(has(replaced.err, "warning: runs/x/metrics.jsonl:2: the last line has no end"))
      << replaced.err;
  EXPECT_TRUE(get("mine.html").starts_with("<!doctype html>"));
}

TEST_F(ReportProgram, WatchPrintsALinePerLook) {
  std::filesystem::create_directories(folder_ / "runs/x");
  put("runs/x/metrics.jsonl", "{\"step\":5,\"loss\":2.5,\"grad_norm\":1,\"step_s\":1}\n");
  put("runs/x/run.yaml", "schedule: { steps: 5 }\n");
  const ProgramResult done = run("watch runs/x");  // ends, because all steps are done
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(done.out.starts_with("step 5/5 loss 2.500")) << done.out;
  put("runs/x/run.yaml", "schedule: { steps: 6 }\n");
  const ProgramResult once = run("watch runs/x --once");
  EXPECT_EQ(once.code, 0) << once.err;
  EXPECT_TRUE(once.out.starts_with("step 5/6 loss 2.500")) << once.out;
  for (const char* lost : {">/dev/full", ">&-"}) {
    const ProgramResult unread = run(fmt::format("watch runs/x --once {}", lost));
    EXPECT_EQ(unread.code, 1) << lost;
    EXPECT_TRUE(unread.err.starts_with("tessera: standard output cannot be written: "))
        << unread.err;
  }
  EXPECT_EQ(run("watch runs/x --every 0").code, 2);
  EXPECT_EQ(run("watch runs/absent").code, 1);
  EXPECT_EQ(once.err, "");
  const std::string line = "{\"step\":5,\"loss\":2.5}\n";
  put("runs/x/metrics.jsonl", line + line);
  for (const char* command : {"watch runs/x --once", "report runs/x"}) {
    const ProgramResult warned = run(command);
    EXPECT_EQ(warned.code, 0);
    EXPECT_TRUE(has(warned.err, "tessera: warning: runs/x/metrics.jsonl: 1 line of a step"))
        << warned.err;
  }
  EXPECT_TRUE(has(get("report.html"), "Warning: runs/x/metrics.jsonl: 1 line of a step"));
  put("runs/x/metrics.jsonl", "");
  EXPECT_EQ(run("watch runs/x --once").out, "no steps yet (not running)\n");
}

TEST_F(ReportProgram, NamesWhatIsNotARun) {
  const ProgramResult absent = run("report runs/absent");
  EXPECT_EQ(absent.code, 1);
  EXPECT_TRUE(has(absent.err, "runs/absent: is not a directory")) << absent.err;
  EXPECT_EQ(run("report").code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "report.html"));
}

}  // namespace
}  // namespace tessera::cli
