#include "compile/check/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "compile/compile.h"
#include "tests/compile/symbolic_machine.h"
#include "tests/compile/training_program.h"
#include "tests/ir/small_request.h"

namespace tessera::compile {
namespace {

using testing::SymbolicMachine;
using testing::training_program;
using testing::TrainingProgramOptions;

constexpr int kSteps = 3;

std::string texts(const std::vector<Finding>& findings) {
  std::string all;
  for (const Finding& f : findings) all += f.kind + ": " + f.text + "\n";
  return all;
}

// The state after three steps, if it is the same in every order that was tried.
std::optional<uint64_t> outcome(const Program& p) {
  SymbolicMachine first(p, 64, 0);
  first.run_in_order(kSteps);
  for (int attempt = 0; attempt < 9; ++attempt) {
    SymbolicMachine m(p, 64, static_cast<uint64_t>(attempt));
    const int rush = attempt < 3 ? static_cast<int>(Queue::kCompute)
                                 : (attempt < 6 ? static_cast<int>(Queue::kData) : int{kNone});
    if (!m.run_in_some_order(kSteps, rush) || m.state() != first.state()) return std::nullopt;
  }
  return first.state();
}

Program compiled(const std::string& recompute, int64_t layers, int64_t microbatches) {
  CompileRequest r = testing::small_request();
  r.model.layers = layers;
  r.layout.recompute = recompute;
  r.microbatches = microbatches;
  return compile(r, {});
}

std::vector<Program> by_hand() {
  std::vector<Program> list;
  for (const int64_t layers : {1, 2, 4})
    for (const int64_t microbatches : {1, 3})
      for (const bool gathers : {false, true})
        list.push_back(training_program({layers, microbatches, gathers, Queue::kData, {}}));
  return list;
}

std::vector<Program> programs() {
  std::vector<Program> list = by_hand();
  list.push_back(compiled("none", 2, 2));
  list.push_back(compiled("full:1", 2, 1));
  return list;
}

TEST(Check, AcceptsGoodPrograms) {
  for (const Program& p : programs()) {
    EXPECT_EQ(texts(check({&p})), "");
    EXPECT_TRUE(outcome(p).has_value());
  }
  for (const char* recompute : {"none", "selective", "full", "full:2"}) {
    const Program p = compiled(recompute, 3, 2);
    EXPECT_EQ(texts(check({&p})), "") << recompute;
  }
}

// Removes the call and closes the gap in all waits.
Program without_call(Program p, CallId gone) {
  p.schedule.erase(p.schedule.begin() + gone.number());
  for (Call& c : p.schedule)
    for (std::vector<CallId>* waits : {&c.after, &c.before_step}) {
      std::erase(*waits, gone);
      for (CallId& y : *waits) y = CallId(y.number() - (y > gone));
    }
  return p;
}

Program with_call_twice(Program p, CallId twice) {
  const Call copy = p.call(twice);
  p.schedule.insert(p.schedule.begin() + twice.number(), copy);
  for (Call& c : p.schedule)
    for (std::vector<CallId>* waits : {&c.after, &c.before_step})
      for (CallId& y : *waits) y = CallId(y.number() + (y >= twice));
  return p;
}

// As a pass would that swaps two calls and keeps the waits of everybody on the same calls.
Program with_swapped(Program p, CallId a, CallId b) {
  std::swap(p.schedule[a], p.schedule[b]);
  for (Call& c : p.schedule)
    for (std::vector<CallId>* waits : {&c.after, &c.before_step})
      for (CallId& y : *waits) y = y == a ? b : (y == b ? a : y);
  return p;
}

void expect_caught(const Program& mutant, const std::string& what) {
  EXPECT_FALSE(check({&mutant}).empty()) << what;
}

// A mutant whose state ends as it should in every order tried may pass; no other may.
bool expect_caught_if_harmful(std::optional<uint64_t> good, const Program& mutant,
                              const std::string& what) {
  if (outcome(mutant) == good) return false;
  expect_caught(mutant, what);
  return true;
}

TEST(CheckMutants, ADroppedCallIsCaught) {
  for (const Program& p : programs())
    for (const CallId c : p.schedule.ids())
      expect_caught(without_call(p, c), "without " + call_name(p, c));
}

TEST(CheckMutants, ASumOrUpdateTwiceIsCaught) {
  for (const Program& p : programs())
    for (const CallId c : p.schedule.ids()) {
      const auto& parameters = p.segment(p.call(c)).buffers;
      if (std::any_of(parameters.begin(), parameters.end(), [](const Parameter& x) {
            return x.access == Access::kAdd || x.access == Access::kUpdate;
          }))
        expect_caught(with_call_twice(p, c), "twice " + call_name(p, c));
    }
}

TEST(CheckMutants, ALostOrExtraFreshIsCaught) {
  for (const Program& p : programs())
    for (const CallId c : p.schedule.ids())
      for (size_t i = 0; i < p.call(c).buffers.size(); ++i) {
        Program mutant = p;
        mutant.schedule[c].first_write[i].flip();
        expect_caught(mutant, "first_write of " + call_name(p, c));
      }
}

TEST(CheckMutants, ALostWaitIsCaught) {
  int waits = 0;
  for (const Program& p : programs())
    for (const CallId c : p.schedule.ids()) {
      for (size_t i = 0; i < p.call(c).after.size(); ++i, ++waits) {
        Program mutant = p;
        auto& after = mutant.schedule[c].after;
        after.erase(after.begin() + static_cast<std::ptrdiff_t>(i));
        expect_caught(mutant, "after of " + call_name(p, c));
      }
      for (size_t i = 0; i < p.call(c).before_step.size(); ++i, ++waits) {
        Program mutant = p;
        auto& before = mutant.schedule[c].before_step;
        before.erase(before.begin() + static_cast<std::ptrdiff_t>(i));
        expect_caught(mutant, "before_step of " + call_name(p, c));
      }
    }
  EXPECT_GT(waits, 100);
}

TEST(CheckMutants, AHarmfulSwapIsCaught) {
  int harmful = 0;
  for (const Program& p : by_hand()) {
    const auto good = outcome(p);
    for (const CallId c : p.schedule.ids()) {
      const CallId next(c.number() + 1);
      if (!p.schedule.contains(next)) break;
      harmful +=
          expect_caught_if_harmful(good, with_swapped(p, c, next),
                                   "swapped " + call_name(p, c) + " and " + call_name(p, next));
    }
  }
  EXPECT_GT(harmful, 100);
}

TEST(CheckMutants, AHarmfulOffsetIsCaught) {
  int harmful = 0;
  for (const Program& p : {by_hand()[1], by_hand()[5], by_hand()[4]}) {
    const auto good = outcome(p);
    for (const BufferId f : p.buffers.ids())
      for (int64_t offset = 0; offset < p.bytes; offset += 64) {
        Program mutant = p;
        mutant.buffers[f].offset = offset;
        const std::string name = buffer_name(p, f);
        harmful += expect_caught_if_harmful(good, mutant, fmt::format("{} at {}", name, offset));
      }
  }
  EXPECT_GT(harmful, 100);
}

TEST(CheckMutants, AnotherBufferOfItsKindIsCaught) {
  int harmful = 0;
  for (const Program& p : {by_hand()[5], by_hand()[6], by_hand()[7]}) {
    const auto good = outcome(p);
    for (const CallId c : p.schedule.ids())
      for (size_t i = 0; i < p.call(c).buffers.size(); ++i)
        for (const BufferId f : p.buffers.ids()) {
          const BufferId mine = p.call(c).buffers[i];
          if (f == mine || p.buffer(f).kind != p.buffer(mine).kind) continue;
          Program mutant = p;
          mutant.schedule[c].buffers[i] = f;
          harmful += expect_caught_if_harmful(
              good, mutant, fmt::format("{} on {}", call_name(p, c), buffer_name(p, f)));
        }
  }
  EXPECT_GT(harmful, 100);
}

class CheckRanks : public ::testing::Test {
 protected:
  const Program a = training_program({.channel = GroupRef::along({AxisKind::kShard})});
  Program b = a;

  CallId wired(int which) const {
    for (const CallId c : b.schedule.ids())
      if (!b.call(c).comm.over.empty() && which-- == 0) return c;
    return kNone;
  }
  std::string first_kind() const {
    const auto findings = check({&a, &b});
    return findings.empty() ? "" : findings[0].kind;
  }
};

TEST_F(CheckRanks, TwoThatAgreePass) { EXPECT_EQ(texts(check({&a, &b})), ""); }

TEST_F(CheckRanks, AMissingPartnerIsAMismatch) {
  EXPECT_EQ(check({&a})[0].kind, "match");
  b = without_call(b, wired(2));
  EXPECT_EQ(first_kind(), "match");
}

TEST_F(CheckRanks, OtherBytesAreAMismatch) {
  b.schedule[wired(3)].comm.bytes += 64;
  EXPECT_EQ(first_kind(), "match");
}

TEST_F(CheckRanks, SwappedCollectivesAreAMismatch) {
  std::swap(b.schedule[wired(0)].comm, b.schedule[wired(1)].comm);
  EXPECT_EQ(first_kind(), "match");
}

TEST_F(CheckRanks, AWaitForALaterCallOfItsQueueIsACycle) {
  b.schedule[CallId(0)].after.push_back(CallId(2));
  const auto findings = check({&a, &b});
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, "cycle");
  EXPECT_NE(findings[0].text.find("waits for"), std::string::npos) << findings[0].text;
}

// Rank 0 sends, then receives; rank 1 does the same in one queue: both wait for ever.
TEST(CheckCycle, RendezvousInOppositeOrderHang) {
  const auto program = [](bool turned) {
    Program p;
    p.kinds.resize(2);
    p.kinds[BufferKindId(0)] = {
        .name = "out", .values = {}, .bytes = 64, .state = true, .stages = {}};
    p.kinds[BufferKindId(1)] = {
        .name = "in", .values = {}, .bytes = 64, .state = true, .stages = {}};
    p.buffers = {{BufferKindId(0), kNone, kNone, 0, true},
                 {BufferKindId(1), kNone, kNone, 64, true}};
    p.segments.resize(2);
    p.segments[SegmentId(0)].subject = "send";
    p.segments[SegmentId(0)].buffers = {{BufferKindId(0), Access::kRead}};
    p.segments[SegmentId(1)].subject = "receive";
    p.segments[SegmentId(1)].buffers = {{BufferKindId(1), Access::kWrite}};
    Call send, recv;
    send.segment = SegmentId(0);
    recv.segment = SegmentId(1);
    send.buffers = {BufferId(0)};
    recv.buffers = {BufferId(1)};
    send.comm = {CommKind::kSend, {}, turned ? 1 : 0, "hidden", 64};
    recv.comm = {CommKind::kReceive, {}, turned ? 0 : 1, "hidden", 64};
    p.schedule = {send, recv};
    p.state_bytes = 128;
    assign_buffers(p, {});
    return p;
  };
  const Program a = program(false), b = program(true);
  const auto findings = check({&a, &b});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, "cycle");
  Program c = b;  // the same, receiving first
  std::swap(c.schedule[CallId(0)], c.schedule[CallId(1)]);
  EXPECT_EQ(texts(check({&a, &c})), "");
}

TEST(CheckText, SpeaksInTheNamesOfTheModel) {
  Program p = training_program({2, 1, false, Queue::kData, {}});
  // forward.layer 1 saves into the bytes of forward.layer 0.
  BufferId saved[2] = {kNone, kNone};
  for (const BufferId f : p.buffers.ids())
    if (p.kind(p.buffer(f).kind).name == "saved") saved[p.buffer(f).layer] = f;
  p.buffers[saved[1]].offset = p.buffer(saved[0]).offset;
  const std::string found = texts(check({&p}));
  EXPECT_NE(found.find("call #6 backward.layer layer=0 mb=0 reads saved layer=0 mb=0 that call #3 "
                       "forward.layer layer=1 mb=0 overwrote"),
            std::string::npos)
      << found;
}

}  // namespace
}  // namespace tessera::compile
