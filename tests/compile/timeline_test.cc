#include "compile/schedule/timeline.h"

#include <gtest/gtest.h>

#include "compile/compile.h"
#include "ir/summary.h"
#include "model/presets.h"

namespace tessera::compile {
namespace {

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Timeline, DrawsStagesAsRows) {
  const PipelineShape p = {PipelineSchedule::k1F1B, 2, 1, 3, {}};
  EXPECT_EQ(timeline_text(p),
            "1f1b: 2 stages, 3 micro-batches, 12 units of time, 25 % of it idle\n"
            "0 F0 F1       B0--- F2 B1---    B2---\n"
            "1    F0 B0--- F1 B1--- F2 B2---\n");
}

TEST(Timeline, NamesChunks) {
  const PipelineShape p = {PipelineSchedule::kInterleaved1F1B, 2, 2, 2, {}};
  EXPECT_EQ(timeline_text(p),
            "interleaved_1f1b: 2 stages of 2 chunks, 2 micro-batches, 15 units of time, 20 % of it "
            "idle\n"
            "0 F0a F1a F0b F1b         B0b----     B1b---- B0a---- B1a----\n"
            "1     F0a F1a F0b B0b---- F1b B1b---- B0a---- B1a----\n");
}

TEST(Timeline, CostsAreDrawnInTheirCommonUnit) {
  const PipelineShape p = {PipelineSchedule::kGpipe, 2, 1, 1, {6, 6}};
  EXPECT_EQ(timeline_text(p),
            "gpipe: 2 stages, 1 micro-batches, 6 units of time, 50 % of it idle\n"
            "0 F0          B0---\n"
            "1    F0 B0---\n");
}

TEST(Timeline, TheImageHasEachActionOnce) {
  const PipelineShape p = {PipelineSchedule::kZeroBubble, 3, 1, 4, {}};
  const std::string image = timeline_svg(p);
  EXPECT_EQ(count(image, "<title>"), 3 * 4 * 3);
  EXPECT_EQ(count(image, "<g>"), count(image, "</g>"));
  EXPECT_EQ(count(image, "micro-batch 2,"), 9);
  EXPECT_TRUE(image.starts_with("<svg ") && image.ends_with("</svg>\n"));
}

TEST(StagesSummary, SaysWhereStagesDiffer) {
  CompileRequest r;
  model::apply_preset("pythia-14m", r.model);
  r.model.layers = 4;
  r.microbatches = 1;
  r.layout.pipeline = 2;
  r.layout.data = 2;
  r.layout.stages = {3, 1};
  const std::string text = summary(compile_stages(r, {}));
  EXPECT_NE(text.find("    0  0-1           0-2  "), std::string::npos) << text;
  EXPECT_NE(text.find("    1  2-3           3  "), std::string::npos) << text;
  EXPECT_NE(text.find("only on stages 0: forward.embed"), std::string::npos) << text;
  EXPECT_NE(text.find("only on stages 1: head"), std::string::npos) << text;
  EXPECT_EQ(text.find("only on stages 0: forward.layer"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera::compile
