// compiler.deallocate_pipeline_outputs = false: a stage keeps the activations that it sent, a slice
// on each tensor rank, until their gradient arrives.
#include <gtest/gtest.h>

#include <array>

#include "compile/check/check.h"
#include "compile/compile.h"
#include "compile/memory/memory_plan.h"
#include "model/presets.h"

namespace tessera::compile {
namespace {

constexpr int64_t kStages = 3, kTensor = 2, kMicrobatches = 5;

CompileRequest request(bool deallocates) {
  CompileRequest r;
  EXPECT_TRUE(model::apply_preset("pythia-14m", r.model));
  model::derive_sizes(r.model);
  r.layout.pipeline = kStages;
  r.layout.tensor = kTensor;
  r.layout.sequence_parallel = false;
  r.layout.recompute = "full";
  r.sequences = 1;
  r.tokens = 128;
  r.microbatches = kMicrobatches;
  r.options.deallocate_pipeline_outputs = deallocates;
  return r;
}

int64_t saved(const Program& p) { return memory_plan(p).saved; }

TEST(KeptSent, EachStageKeepsAPartOfEveryMicrobatchInFlight) {
  const CompileRequest r = request(false);
  const std::vector<Program> dropped = compile_stages(request(true), Target{});
  const std::vector<Program> kept = compile_stages(r, Target{});
  const int64_t part = r.tokens * r.model.hidden / kTensor * size_of(DType::kF32);
  for (int64_t s = 0; s < kStages; ++s) {
    const auto stage = static_cast<size_t>(s);
    const int64_t in_flight = s + 1 < kStages ? kStages - s : 0;  // the last sends nothing on
    EXPECT_EQ(saved(kept[stage]) - saved(dropped[stage]), in_flight * part) << "stage " << s;
  }
}

// With one tensor rank the stream itself stays; split streams are parts already.
TEST(KeptSent, WhatIsNotDividedStaysWhole) {
  for (const bool parallel : {false, true}) {
    std::array<int64_t, 2> bytes{};
    for (const bool deallocates : {true, false}) {
      CompileRequest r = request(deallocates);
      r.layout.sequence_parallel = parallel;
      r.layout.tensor = parallel ? kTensor : 1;
      const std::vector<Program> stages = compile_stages(r, Target{});
      bytes[deallocates ? 0 : 1] = saved(stages[0]);
      for (const Segment& s : stages[0].segments) EXPECT_NE(s.phase, Phase::kKeepSent);
    }
    const int64_t part =
        128 * request(false).model.hidden / (parallel ? kTensor : 1) * size_of(DType::kF32);
    EXPECT_EQ(bytes[1] - bytes[0], kStages * part);
  }
}

TEST(KeptSent, TheProgramsAreRight) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B, PipelineSchedule::kZeroBubble}) {
    CompileRequest r = request(false);
    r.layout.pipeline_schedule = schedule;
    const std::vector<Program> stages = compile_stages(r, Target{});
    const std::vector<std::string> faults = prove(stages);
    EXPECT_TRUE(faults.empty()) << faults[0];
  }
}

}  // namespace
}  // namespace tessera::compile
