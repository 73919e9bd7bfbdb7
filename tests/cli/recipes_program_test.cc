// The run files of published runs: each compiles to programs that check for its whole mesh, and its
// small twin, the same file with small sizes, trains here.
#include "tests/cli/program.h"
#include "train/run_config.h"

namespace tessera {
namespace {

std::vector<Path> recipes() {
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_RECIPES))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

class Recipes : public ProgramFolder {};

// Stochastic rounding is not in this build; everything else is as the file says.
std::string precision_here(const RunConfig& c) {
  return c.precision == Precision::kBf16Sr ? "precision=bf16" : "";
}

TEST_F(Recipes, CompileAndCheckForTheirWholeMesh) {
  for (const Path& path : recipes()) {
    const ProgramResult r = run(
        fmt::format("compile {} --check {}", path.string(), precision_here(load_run(path, {}))));
    EXPECT_EQ(r.code, 0) << path << "\n" << r.err;
  }
}

double number(const std::string& line, const char* key) {
  const std::string first = line.substr(0, line.find('\n'));
  return std::get<double>(parse_json(first, "metrics.jsonl").find(key)->value);
}

TEST_F(Recipes, SmallTwinsTrain) {
  for (const Path& path : recipes()) {
    const RunConfig c = load_run(path, {});
    constexpr int64_t kHeads = 8;
    const int64_t kv_heads = std::max<int64_t>(1, kHeads * c.model.kv_heads / c.model.heads);
    const ProgramResult r = run(fmt::format(
        "train {} {} model.layers=2 model.hidden=64 model.heads={} model.kv_heads={} "
        "model.feed_forward=176 model.vocabulary=0 model.vocabulary_multiple=1 model.context=32 "
        "data.tokenizer=t.json data.train=[d] data.validation=[] data.split= "
        "data.sequence_length=32 "
        "batch.global=8 batch.micro=4 optimizer.learning_rate=3e-3 "
        "schedule.steps=12 schedule.warmup_steps=2 schedule.decay_steps=0 "
        "layout.data=1 layout.tensor=1 layout.pipeline=1 run.threads=1 "
        "checkpoint.every_steps=0 checkpoint.at_steps=[] metrics.validate_every_steps=0",
        path.string(), precision_here(c), kHeads, kv_heads));
    ASSERT_EQ(r.code, 0) << path << "\n" << r.err;
    const std::string curve = get("runs/" + c.run.name + "/metrics.jsonl");
    const size_t last = curve.rfind('\n', curve.size() - 2) + 1;
    EXPECT_LT(number(curve.substr(last), "loss"), 0.95 * number(curve, "loss")) << curve;
  }
}

}  // namespace
}  // namespace tessera
