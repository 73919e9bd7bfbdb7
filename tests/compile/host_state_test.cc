// layout.offload: optimizer. Master weights and moments are in the host's memory, and on the device
// around their update alone.
#include "compile/schedule/schedule_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "compile/check/check.h"
#include "compile/compile.h"
#include "compile/memory/assign_buffers.h"
#include "compile/memory/memory_plan.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/state/local_state.h"
#include "tests/compile/random_layout.h"

namespace tessera::compile {
namespace {

using testing::LayoutDraw;

CompileRequest request(const std::string& offload, Precision precision = Precision::kBf16) {
  CompileRequest r;
  EXPECT_TRUE(model::apply_preset("pythia-14m", r.model));
  r.model.layers = 3;
  model::derive_sizes(r.model);
  r.sequences = 1;
  r.tokens = 128;
  r.microbatches = 2;
  r.precision = precision;
  r.layout.offload = offload;
  r.layout.overlap = 0;
  return r;
}

int64_t host_state_bytes(const Program& p) {
  int64_t bytes = 0;
  for (const Buffer& f : p.buffers)
    if (f.state && p.kind(f.kind).host) bytes += p.kind(f.kind).bytes;
  return bytes;
}

// The calls around the update of layer 1: "fetch.layer.master 1".
std::vector<std::string> calls_of_update(const Program& p) {
  std::vector<std::string> names;
  for (const Call& c : p.schedule) {
    const std::string name = p.segment(c).name();
    const bool of_layer = c.layer == 1 && c.microbatch == kNone;
    if (of_layer && !name.starts_with("squares")) names.push_back(name + " 1");
  }
  return names;
}

TEST(HostState, CallsBeforeAndAfter) {
  EXPECT_EQ(calls_of_update(compile(request("none"), {})),
            std::vector<std::string>{"update.layer 1"});
  const std::vector<std::string> with = {
      "fetch.layer.moment1 1",  "fetch.layer.moment2 1",   "fetch.layer.master 1",
      "update.layer 1",         "offload.layer.moment1 1", "offload.layer.moment2 1",
      "offload.layer.master 1",
  };
  std::vector<std::string> found = calls_of_update(compile(request("optimizer"), {}));
  ASSERT_EQ(found.size(), with.size());
  EXPECT_EQ(found[3], with[3]);
  std::sort(found.begin(), found.begin() + 3);
  std::sort(found.begin() + 4, found.end());
  std::vector<std::string> sorted = with;
  std::sort(sorted.begin(), sorted.begin() + 3);
  std::sort(sorted.begin() + 4, sorted.end());
  EXPECT_EQ(found, sorted);
}

// Adafactor reads master weights once before the update: each use has a copy of its own, so no two
// layers' masters are on the device together for long.
TEST(HostState, MastersAreFetchedForEachUse) {
  CompileRequest r = request("optimizer");
  r.optimizer.kind = OptimizerKind::kAdafactor;
  r.optimizer.beta1 = 0;
  const Program p = compile(r, {});
  std::map<std::string, int> calls;
  for (const Call& c : p.schedule)
    if (c.layer == 1) ++calls[p.segment(c).name()];
  EXPECT_EQ(calls["fetch.layer.master"], 2);
  EXPECT_EQ(calls["offload.layer.master"], 1);
  EXPECT_TRUE(prove({p}).empty());
  EXPECT_LE(memory_plan(p).optimizer, memory_plan(compile(request("none"), {})).optimizer / 3);
}

// What the device has less of is exactly what the host has.
TEST(HostState, TheStateOfTheArenaIsLessByThatOfTheHost) {
  for (const Precision precision :
       {Precision::kFp32, Precision::kBf16, Precision::kBf16Sr, Precision::kFp16}) {
    const Program without = compile(request("none", precision), {}),
                  with = compile(request("optimizer", precision), {});
    const MemoryPlan before = memory_plan(without), after = memory_plan(with);
    EXPECT_EQ(before.host, 0);
    EXPECT_EQ(after.host, host_state_bytes(with));
    EXPECT_EQ(without.state_bytes - with.state_bytes, after.host);
    // The embedding's and the head's state are larger than a layer's.
    int64_t largest = 0;
    for (const BufferKind& k : with.kinds)
      if (k.host) largest = std::max(largest, k.bytes);
    EXPECT_LE(with.bytes, std::max(without.bytes - after.host + 6 * largest, without.bytes));
    EXPECT_LT(with.bytes, without.bytes);
    EXPECT_EQ(after.weights, before.weights);
  }
}

// The same pieces under the same names; master weights and moments in kinds of the host.
TEST(HostState, PiecesNameTheHost) {
  const Program without = compile(request("none"), {}), with = compile(request("optimizer"), {});
  const std::vector<StateShard> a = local_state(without), b = local_state(with);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].begin, b[i].begin);
    EXPECT_TRUE(with.kind(b[i].kind).host && with.kind(b[i].kind).state) << b[i].name;
    EXPECT_FALSE(b[i].copy != kNone && with.kind(b[i].copy).host) << b[i].name;
  }
}

// All programs of a run find the state in the same place of the host's arena.
TEST(HostState, ProgramsAgreeOnOffsets) {
  CompileRequest r = request("activations+optimizer");
  const Program train = compile(r, {});
  r.kind = ProgramKind::kValidate;
  r.microbatches = 1;
  r.optimizer_state = true;
  const Program validate = compile(r, {});
  const auto offsets = [](const Program& p) {
    std::map<std::pair<std::string, int64_t>, int64_t> found;
    for (const Buffer& f : p.buffers)
      if (f.state && p.kind(f.kind).host)
        found[{p.kind(f.kind).name, f.layer}] = f.offset - p.bytes;
    return found;
  };
  EXPECT_EQ(offsets(train), offsets(validate));
  EXPECT_FALSE(offsets(train).empty());
  EXPECT_TRUE(prove({validate}).empty());
  EXPECT_EQ(host_state_bytes(train), validate.host_bytes);
  EXPECT_GT(train.host_bytes, validate.host_bytes);
}

TEST(HostState, TextIsReadBackAndPlacedAgain) {
  Program p = compile(request("activations+optimizer"), {});
  EXPECT_EQ(parse_program(tessera::print(p), "text"), p);
  const Program before = p;
  assign_buffers(p, {});
  EXPECT_EQ(p, before);
}

// Without Adam, in fp32, there is nothing to keep.
TEST(HostState, AnOptimizerWithoutStateCopiesNothing) {
  CompileRequest r = request("optimizer", Precision::kFp32);
  r.optimizer.kind = OptimizerKind::kSgd;
  r.optimizer.beta1 = 0;
  EXPECT_EQ(compile(r, {}).host_bytes, 0);
}

TEST(HostState, RandomLayoutsHaveNoFinding) {
  LayoutDraw draw(61);
  int64_t copied = 0;
  for (int i = 0; i < 60; ++i) {
    CompileRequest r = draw.request(8);
    r.layout.offload = i % 2 == 0 ? "optimizer" : "optimizer+activations:1";
    SCOPED_TRACE(testing::text_of(r));
    const std::vector<Program> stages = compile_stages(r, {});
    const std::vector<std::string> faults = prove(stages);
    EXPECT_TRUE(faults.empty()) << faults[0];
    for (const Program& p : stages) copied += host_state_bytes(p) > 0;
  }
  EXPECT_GT(copied, 60);
}

TEST(HostState, ACopyThatIsMissingIsFound) {
  const Program p = compile(request("optimizer"), {});
  ASSERT_TRUE(prove({p}).empty());
  for (const CallId c : p.schedule.ids()) {
    const Queue queue = p.segment(p.call(c)).queue;
    if (queue != Queue::kCopyOut && queue != Queue::kCopyIn) continue;
    Program q = p;
    // A call's place in the list is what others wait for: it stays, and copies nothing.
    q.schedule[c].segment = q.segments.emplace_back();
    q.segments.back().subject = "nothing";
    q.schedule[c].buffers.clear();
    q.schedule[c].first_write.clear();
    EXPECT_FALSE(prove({q}).empty()) << call_name(p, c);
  }
}

TEST(HostState, PartsOfTheKey) {
  EXPECT_TRUE(parse_offload("optimizer").optimizer);
  EXPECT_EQ(parse_offload("optimizer").layers, 0);
  for (const char* both : {"activations:3+optimizer", "optimizer+activations:3"}) {
    EXPECT_TRUE(parse_offload(both).optimizer);
    EXPECT_EQ(parse_offload(both).layers, 3);
  }
  EXPECT_FALSE(parse_offload("activations").optimizer);
  for (const char* wrong : {"optimizer:1", "optimizer+", "+optimizer", "none+optimizer",
                            "optimizer+optimizer", "activations+activations:1", "optimizer,"})
    EXPECT_THROW(parse_offload(wrong), Error) << wrong;
}

}  // namespace
}  // namespace tessera::compile
