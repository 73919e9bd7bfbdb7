// The programs of random layouts have no finding: by classes, one program a stage, and rank by
// rank.
#include <gtest/gtest.h>

#include "compile/check/check.h"
#include "compile/compile.h"
#include "model/forward.h"
#include "tests/compile/random_layout.h"

namespace tessera::compile {
namespace {

using testing::each_rank;
using testing::LayoutDraw;

std::string first_finding(const std::vector<Program>& stages, bool rank_by_rank) {
  for (const std::string& wrong : prove(stages)) return wrong;
  if (!rank_by_rank) return "";
  for (const Finding& f : check(each_rank(stages)))
    return fmt::format("rank {} {}: {}", f.rank, f.kind, f.text);
  return "";
}

TEST(CheckLayouts, RandomLayoutsHaveNoFinding) {
  LayoutDraw draw(40);
  for (int i = 0; i < 120; ++i) {
    const CompileRequest r = draw.request(16);
    SCOPED_TRACE(testing::text_of(r));
    EXPECT_EQ(first_finding(compile_stages(r, {}), true), "");
  }
}

// Stacks that interleave: cut anywhere, with their layers recomputed, offloaded, gathered.
TEST(CheckLayouts, LayersOfSeveralKindsHaveNoFinding) {
  LayoutDraw draw(45, true);
  int64_t several = 0, pipelines = 0;
  for (int i = 0; i < 120; ++i) {
    const CompileRequest r = draw.request(16);
    SCOPED_TRACE(testing::text_of(r));
    const bool kinds = r.model.encoder_layers == 0 && model::layer_kinds(r.model).size() > 1;
    several += kinds;
    pipelines += kinds && r.layout.pipeline > 1;
    EXPECT_EQ(first_finding(compile_stages(r, {}), true), "");
  }
  EXPECT_GT(several, 60);
  EXPECT_GT(pipelines, 30);
}

Target ordered_transfers() {
  Target t;
  t.ordered_transfers = true;
  return t;
}

TEST(CheckLayouts, TransfersThatBlockEachOtherCannotHang) {
  LayoutDraw draw(44);
  int64_t stages = 0;
  for (int i = 0; i < 120; ++i) {
    const CompileRequest r = draw.request(16);
    SCOPED_TRACE(testing::text_of(r));
    stages += r.layout.pipeline > 1;
    EXPECT_EQ(first_finding(compile_stages(r, ordered_transfers()), true), "");
  }
  EXPECT_GT(stages, 30);
}

CompileRequest four_llama_layers(LayoutDraw& draw) {
  CompileRequest r = draw.request(1);
  model::apply_family(model::Family::kLlama, r.model);
  r.model.layers = 4;
  r.model.encoder_layers = r.encoder_tokens = 0;
  model::derive_sizes(r.model);
  return r;
}

// D-B5: a receive that is started before earlier sends to the same stage waits for a rank that
// waits for these sends, if transfers block each other.
TEST(CheckLayouts, D_B5_ReceivesThatPassSendsCanHang) {
  LayoutDraw draw(1, false, families_by_experts(false));
  CompileRequest r = four_llama_layers(draw);
  r.microbatches = 4;
  r.layout.pipeline = r.layout.interleave = 2;
  r.layout.pipeline_schedule = PipelineSchedule::kInterleaved1F1B;
  r.layout.overlap = 1;
  std::vector<Program> programs = compile_stages(r, {});
  EXPECT_EQ(first_finding(programs, true), "");
  for (Program& p : programs) p.ordered_transfers = true;
  EXPECT_NE(first_finding(programs, false).find("waits for"), std::string::npos);
  EXPECT_EQ(first_finding(compile_stages(r, ordered_transfers()), true), "");
}

// Nothing before the first layer is trained, and chunks stand between: no gradient travels there.
TEST(CheckLayouts, FrozenEmbeddingsAreSentNoGradients) {
  LayoutDraw draw(43, false, families_by_experts(false));
  CompileRequest r = four_llama_layers(draw);
  r.frozen = {"embed.*"};
  r.layout.pipeline = 2;
  for (const std::vector<int64_t>& stages : {std::vector<int64_t>{0, 4}, {0, 0, 3, 1}}) {
    r.layout.stages = stages;
    r.layout.interleave = static_cast<int64_t>(stages.size()) / 2;
    r.layout.pipeline_schedule = PipelineSchedule::kInterleaved1F1B;
    SCOPED_TRACE(testing::text_of(r));
    const std::vector<Program> programs = compile_stages(r, {});
    EXPECT_EQ(first_finding(programs, true), "");
    for (const Program& p : programs)
      for (const Call& c : p.schedule) EXPECT_NE(c.comm.label, "d_hidden layer=0 mb=0");
  }
}

// Two chunks of a stage may end at one cut, and each keeps its share of what it sent.
TEST(CheckLayouts, ChunksWithoutLayersKeepWhatTheySend) {
  LayoutDraw draw(46, false, families_by_experts(false));
  CompileRequest r = four_llama_layers(draw);
  r.model.kv_heads = r.model.heads;
  r.microbatches = 4;
  r.layout.tensor = r.layout.pipeline = 2;
  r.layout.sequence_parallel = false;
  r.layout.interleave = 3;
  r.layout.pipeline_schedule = PipelineSchedule::kInterleaved1F1B;
  r.layout.stages = {1, 0, 0, 0, 2, 1};
  r.options.deallocate_pipeline_outputs = false;
  EXPECT_EQ(first_finding(compile_stages(r, {}), true), "");
}

// Validation and generation start from weights of which an update left only a part new.
TEST(CheckLayouts, OtherPurposesHaveNoFinding) {
  LayoutDraw draw(41);
  for (int i = 0; i < 30; ++i) {
    CompileRequest r = draw.request(16);
    r.kind = ProgramKind::kValidate;
    r.microbatches = 1;
    SCOPED_TRACE(testing::text_of(r));
    EXPECT_EQ(first_finding(compile_stages(r, {}), false), "");
  }
}

// Ranks divide the cache of generation: they read one token of each text, or a piece of a prompt.
TEST(CheckLayouts, DecodingHasNoFinding) {
  LayoutDraw draw(47, true, every_decoder());
  int64_t divided = 0;
  for (int i = 0; i < 60; ++i) {
    CompileRequest r = draw.request(16);
    r.kind = ProgramKind::kDecode;
    r.microbatches = 1;
    r.tokens = i % 2 == 0 ? 1 : 4;
    r.layout.sequence_parallel = r.layout.context_balance = false;
    r.layout.context = 1;
    r.layout.context_method = ContextMethod::kGather;
    SCOPED_TRACE(testing::text_of(r));
    const std::vector<Program> stages = compile_stages(r, {});
    EXPECT_EQ(first_finding(stages, true), "");
    for (const Program& p : stages)
      for (const Value& v : p.values)
        divided += v.role == Role::kCache && v.local().elements() < v.shape.elements();
  }
  EXPECT_GT(divided, 30);
}

// What any rank compiles for itself is the program of its stage.
TEST(CheckLayouts, ARankCompilesTheProgramOfItsStage) {
  LayoutDraw draw(42);
  for (int i = 0; i < 20; ++i) {
    CompileRequest r = draw.request(16);
    SCOPED_TRACE(testing::text_of(r));
    const std::vector<Program> stages = compile_stages(r, {});
    const Mesh mesh = mesh_of(r.layout);
    const int64_t rank = draw.number(0, mesh.ranks() - 1);
    r.stage = coordinates_of(mesh, rank)[AxisKind::kPipeline];
    EXPECT_TRUE(compile(r, {}) == stages[static_cast<size_t>(r.stage)]) << "rank " << rank;
  }
}

}  // namespace
}  // namespace tessera::compile
