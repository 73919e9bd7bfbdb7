// layout.offload: what a forward leaves to its backward waits in the host's memory.
#include "compile/schedule/schedule_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "compile/check/check.h"
#include "compile/compile.h"
#include "compile/memory/memory_plan.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "model/presets.h"

namespace tessera::compile {
namespace {

CompileRequest request(const std::string& offload, int64_t layers = 12) {
  CompileRequest r;
  EXPECT_TRUE(model::apply_preset("pythia-14m", r.model));
  r.model.layers = layers;
  model::derive_sizes(r.model);
  r.sequences = 1;
  r.tokens = 128;
  r.microbatches = 2;
  r.layout.offload = offload;
  return r;
}

Program program(const std::string& offload, int64_t layers = 12) {
  return compile(request(offload, layers), Target{});
}

// "forward.layer 3": of one micro-batch.
std::vector<std::string> calls_of(const Program& p, int64_t microbatch) {
  std::vector<std::string> names;
  for (const Call& c : p.schedule)
    if (c.microbatch == microbatch)
      names.push_back(p.segment(c).name() + " " + std::to_string(c.layer));
  return names;
}

TEST(Offload, CallsBeforeAndAfter) {
  const std::vector<std::string> before = {
      "forward.embed -1", "forward.layer 0",  "forward.layer 1",  "forward.layer 2",   "head -1",
      "backward.layer 2", "backward.layer 1", "backward.layer 0", "backward.embed -1",
  };
  // Of layer 2 and of what the head reads nothing is copied: it comes back too soon. Fetches stand
  // one call of computation (layout.overlap) ahead of their readers.
  const std::vector<std::string> after = {
      "forward.embed -1",  "forward.layer 0",     "offload.hidden 0", "offload.layer.saved 0",
      "forward.layer 1",   "forward.layer 2",     "head -1",          "backward.layer 2",
      "fetch.hidden 0",    "fetch.layer.saved 0", "backward.layer 1", "backward.layer 0",
      "backward.embed -1",
  };
  EXPECT_EQ(calls_of(program("none", 3), 0), before);
  EXPECT_EQ(calls_of(program("activations", 3), 0), after);
}

// What the printer says of the stream that layer 0 read, whose copy is %83. It comes back without
// waiting for computation: its bytes are free by then.
TEST(Offload, TextBeforeAndAfter) {
  const auto lines = [](const Program& p) {
    std::string out;
    std::istringstream text(tessera::print(p));
    for (std::string line; std::getline(text, line);)
      for (const char* with : {"hidden.host bytes", "offload.hidden", "fetch.hidden", "copy (%8)",
                               "copy (%83)", " hidden.host\n"})
        if ((line + "\n").find(with) != std::string::npos)
          out += line.substr(line.find_first_not_of(' ')) + "\n";
    return out;
  };
  EXPECT_EQ(lines(program("none", 3)), "");
  EXPECT_EQ(lines(program("activations", 3)),
            "$20 hidden.host bytes=65536 per=layer,microbatch host: %83\n"
            "$13 offload.hidden queue=copy_out scratch=0\n"
            "write hidden.host\n"
            "%83 = copy (%8) queue=copy_out at=offload : f32 [1, 128, 128]\n"
            "$14 fetch.hidden queue=copy_in scratch=0\n"
            "read hidden.host\n"
            "%8 = copy (%83) queue=copy_in at=fetch : f32 [1, 128, 128]\n"
            "#3 offload.hidden layer=0 mb=0 buffers=@19,@46 first_write=- after=#1\n"
            "#9 fetch.hidden layer=0 mb=0 buffers=@46,@47 first_write=- after=#3\n"
            "#16 offload.hidden layer=0 mb=1 buffers=@35,@50 first_write=- after=#14\n"
            "#22 fetch.hidden layer=0 mb=1 buffers=@50,@51 first_write=- after=#16\n");
}

TEST(Offload, TextIsReadBack) {
  const Program p = program("activations", 6);
  const Program again = parse_program(tessera::print(p), "text");
  EXPECT_EQ(again, p);
  EXPECT_GT(p.host_bytes, 0);
}

// Of the device's bytes those of a few layers are left, whatever the depth; what went is on the
// host.
TEST(Offload, TheArenaKeepsAFewLayers) {
  const MemoryPlan without = memory_plan(program("none")),
                   with = memory_plan(program("activations"));
  EXPECT_EQ(without.host, 0);
  EXPECT_LT(with.saved, without.saved / 2);
  EXPECT_LE(with.arena, without.arena - (without.saved - with.saved) * 9 / 10);
  EXPECT_GE(with.host, without.saved - with.saved);
  EXPECT_EQ(with.weights, without.weights);
  const MemoryPlan deeper = memory_plan(program("activations", 24));
  EXPECT_EQ(deeper.saved, with.saved);
}

TEST(Offload, FirstLayersAlone) {
  for (const int64_t n : {0, 1, 4}) {
    const Program p = program("activations:" + std::to_string(n));
    std::set<int64_t> layers;
    for (const Call& c : p.schedule)
      if (p.segment(c).queue == Queue::kCopyOut) layers.insert(c.layer);
    EXPECT_EQ(static_cast<int64_t>(layers.size()), n);
    if (n > 0) {
      EXPECT_EQ(*layers.rbegin(), n - 1);
    }
  }
}

// A copy out and one back for each buffer; each kind's queue is its own.
TEST(Offload, CopiesComeInPairs) {
  const Program p = program("activations");
  std::multiset<std::pair<int64_t, int64_t>> out, in;
  for (const Call& c : p.schedule) {
    const Segment& s = p.segment(c);
    if (s.queue == Queue::kCopyOut) out.insert({c.layer, c.microbatch});
    if (s.queue == Queue::kCopyIn) in.insert({c.layer, c.microbatch});
  }
  EXPECT_EQ(out, in);
  EXPECT_GT(out.size(), 2u * 2 * 8);  // two micro-batches, two kinds, most of the layers
}

TEST(Offload, WithAllOtherSchedules) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B, PipelineSchedule::kInterleaved1F1B,
        PipelineSchedule::kZeroBubble})
    for (const int64_t zero : {1, 2, 3})
      for (const char* recompute : {"none", "selective", "full"}) {
        CompileRequest r = request("activations");
        r.layout.pipeline = 2;
        r.layout.data = 2;
        r.layout.pipeline_schedule = schedule;
        if (schedule == PipelineSchedule::kInterleaved1F1B) r.layout.interleave = 2;
        r.layout.zero = zero;
        r.layout.recompute = recompute;
        r.microbatches = 4;
        const std::vector<Program> stages = compile_stages(r, Target{});
        EXPECT_GT(stages[0].host_bytes, 0);
        const std::vector<std::string> faults = prove(stages);
        EXPECT_TRUE(faults.empty()) << faults[0];
      }
}

TEST(Offload, ACopyThatIsMissingIsFound) {
  const Program p = program("activations");
  ASSERT_TRUE(prove({p}).empty());
  for (const Queue queue : {Queue::kCopyOut, Queue::kCopyIn}) {
    Program q = p;
    const auto copy = std::find_if(q.schedule.begin(), q.schedule.end(),
                                   [&](const Call& c) { return q.segment(c).queue == queue; });
    ASSERT_NE(copy, q.schedule.end());
    // A call's place in the list is what others wait for: it stays, and copies nothing.
    copy->segment = q.segments.emplace_back();
    q.segments.back().subject = "nothing";
    copy->buffers.clear();
    copy->first_write.clear();
    EXPECT_FALSE(prove({q}).empty());
  }
}

TEST(Offload, ValidationCopiesNothing) {
  CompileRequest r = request("activations");
  r.kind = ProgramKind::kValidate;
  r.microbatches = 1;
  EXPECT_EQ(compile(r, Target{}).host_bytes, 0);
}

TEST(Offload, WhatIsNotKnownIsSaid) {
  EXPECT_EQ(parse_offload("none").layers, 0);
  EXPECT_EQ(parse_offload("activations").layers, kAllLayers);
  EXPECT_EQ(parse_offload("activations:3").layers, 3);
  for (const char* wrong :
       {"", "all", "activations:", "activations:x", "activations:-1", "activations:2 "})
    EXPECT_THROW(parse_offload(wrong), Error) << wrong;
}

}  // namespace
}  // namespace tessera::compile
