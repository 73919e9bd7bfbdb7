// The run files of published runs: each compiles to programs that check for its whole mesh, is
// planned on the machine it ran on, and has a scaled-down version that trains here.
#include "tests/cli/program.h"
#include "train/load_run.h"

namespace tessera::cli {
namespace {

std::vector<Path> recipes() {
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_RECIPES))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

class Recipes : public ProgramFolder {};

TEST_F(Recipes, CompileAndCheckForTheirWholeMesh) {
  for (const Path& path : recipes()) {
    const ProgramResult r = run(fmt::format("compile {} --check", path.string()));
    EXPECT_EQ(r.code, 0) << path << "\n" << r.err;
  }
}

// The cluster file of the machine that a run was published on, and how many of its micro-batches
// are planned: a long pipeline repeats itself, and thousands take minutes.
struct Machine {
  const char* cluster;
  int64_t most_microbatches = 64;
};
Machine machine_of(const std::string& name) {
  if (name.starts_with("frontier")) return {"mi250x-frontier"};
  if (name.starts_with("hlat") || name.ends_with("trainium")) return {"trn1"};
  return {name.starts_with("mt5") ? "a100-80gb" : "a100-40gb"};
}

TEST_F(Recipes, ArePlannedOnTheirMachines) {
  for (const Path& path : recipes()) {
    SCOPED_TRACE(path.string());
    const config::RunConfig c = train::load_run(path, {});
    const Machine m = machine_of(c.run.name);
    const int64_t together = c.batch.micro * c.layout.data;
    const int64_t global = std::min(c.batch.global, together * m.most_microbatches);
    const ProgramResult r = run(fmt::format("plan {} --cluster {}/{}.yaml --json batch.global={}",
                                            path.string(), TESSERA_CLUSTERS, m.cluster, global));
    ASSERT_EQ(r.code, 0) << r.err;
    const Tree plan = parse_json(r.out, "plan");
    EXPECT_GT(std::get<double>(plan.find("step_s")->value), 0);
    const double mfu = std::get<double>(plan.find("mfu")->value);
    EXPECT_GT(mfu, 0.05);
    EXPECT_LT(mfu, 1);
  }
}

double number(const std::string& line, const char* key) {
  const std::string first = line.substr(0, line.find('\n'));
  return std::get<double>(parse_json(first, "metrics.jsonl").find(key)->value);
}

TEST_F(Recipes, SmallTwinsTrain) {
  ASSERT_EQ(
      run("tokenizer train --kind unigram --vocabulary 340 --sentinels 20 --out t.model a.txt")
          .code,
      0);
  ASSERT_EQ(run("data build --tokenizer t.model --out p a.txt").code, 0);
  for (const Path& path : recipes()) {
    const config::RunConfig c = train::load_run(path, {});
    const bool spans = c.data.objective == config::Objective::kSpanCorruption;
    const ProgramResult r = run(fmt::format(
        "train {} --small {} data.validation=[] data.split= run.threads=1 schedule.steps=30",
        path.string(),
        spans ? "data.tokenizer=t.model data.train=[p]" : "data.tokenizer=t.json data.train=[d]"));
    ASSERT_EQ(r.code, 0) << path << "\n" << r.err;
    const std::string curve = get("runs/" + c.run.name + "-small/metrics.jsonl");
    const size_t last = curve.rfind('\n', curve.size() - 2) + 1;
    EXPECT_LT(number(curve.substr(last), "loss"), 0.95 * number(curve, "loss")) << curve;
  }
}

}  // namespace
}  // namespace tessera::cli
