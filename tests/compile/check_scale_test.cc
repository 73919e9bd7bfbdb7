// A model of a trillion parameters on 3,072 ranks: compiled and checked by classes of ranks.
#include <gtest/gtest.h>

#include <ctime>

#include "compile/check/check.h"
#include "compile/compile.h"
#include "ir/verify.h"
#include "tests/compile/random_layout.h"

namespace tessera::compile {
namespace {

CompileRequest trillion() {
  CompileRequest r;
  EXPECT_TRUE(model::apply_preset("frontier-1t", r.model));
  model::derive_sizes(r.model);
  r.layout.data = 6;
  r.layout.tensor = 8;
  r.layout.pipeline = 64;
  r.precision = Precision::kBf16;
  r.tokens = 2048;
  r.microbatches = 96;
  return r;
}

// Of this thread: others on the machine do not count.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(CheckScale, ATrillionParametersOn3072RanksWithinFiveSeconds) {
  const CompileRequest r = trillion();
  EXPECT_GT(model::parameter_count(r.model), 1'000'000'000'000);
  EXPECT_EQ(mesh_of(r.layout).ranks(), 3072);
  const double start = seconds();
  const std::vector<Program> stages = compile_stages(r, {});
  const double compiled = seconds();
  EXPECT_EQ(prove(stages), std::vector<std::string>());
  const double proved = seconds();
  int64_t calls = 0;
  for (const Program& p : stages) calls += static_cast<int64_t>(p.schedule.size());
  RecordProperty("calls", std::to_string(calls));
  fmt::print("{} calls: compile {:.2f} s, prove {:.2f} s\n", calls, compiled - start,
             proved - compiled);
  EXPECT_LT(proved - start, 5);
}

// The map from rank to class: what a rank compiles for itself is the program of its stage.
TEST(CheckScale, RandomRanksCompileTheProgramOfTheirStage) {
  CompileRequest r = trillion();
  const std::vector<Program> stages = compile_stages(r, {});
  const Mesh mesh = mesh_of(r.layout);
  testing::LayoutDraw draw(60);
  for (int i = 0; i < 64; ++i) {
    const int64_t rank = draw.number(0, mesh.ranks() - 1);
    r.stage = coordinates_of(mesh, rank)[AxisKind::kPipeline];
    ASSERT_TRUE(compile(r, {}) == stages[static_cast<size_t>(r.stage)]) << "rank " << rank;
  }
}

}  // namespace
}  // namespace tessera::compile
