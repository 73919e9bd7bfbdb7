#include "compile/memory/assign_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "compile/check/check.h"
#include "tests/compile/random_program.h"
#include "tests/compile/training_program.h"

namespace tessera::compile {
namespace {

using testing::random_program;

constexpr int kSeeds = 300;

struct Interval {
  int64_t first = kNone, last = kNone;  // positions in the schedule
};

Interval life_of(const Program& p, BufferId f) {
  Interval i;
  for (const CallId c : p.schedule.ids()) {
    const auto& buffers = p.schedule[c].buffers;
    if (std::find(buffers.begin(), buffers.end(), f) == buffers.end()) continue;
    if (i.first == kNone) i.first = c.number();
    i.last = c.number();
  }
  return i;
}

int64_t end_of(const Program& p, BufferId f) {
  return p.buffer(f).offset + p.kind(p.buffer(f).kind).bytes;
}

bool share_bytes(const Program& p, BufferId a, BufferId b) {
  return p.buffer(a).offset < end_of(p, b) && p.buffer(b).offset < end_of(p, a);
}

Queue queue_of(const Program& p, int64_t call) { return p.segment(p.call(CallId(call))).queue; }

// Whether f has bytes of the scratch that c writes.
bool in_scratch(const Program& p, const Call& c, BufferId f) {
  const Segment& s = p.segment(c);
  const int64_t from = scratch_offset(p, s.queue);
  const int64_t to = from + s.scratch_bytes;
  return from < to && p.buffer(f).offset < to && from < end_of(p, f);
}

bool conflict(const Program& p, const Call& a, const Call& b) {
  const Segment &sa = p.segment(a.segment), &sb = p.segment(b.segment);
  for (const BufferId f : a.buffers)
    if (in_scratch(p, b, f)) return true;
  for (const BufferId f : b.buffers)
    if (in_scratch(p, a, f)) return true;
  for (size_t i = 0; i < a.buffers.size(); ++i)
    for (size_t j = 0; j < b.buffers.size(); ++j)
      if (share_bytes(p, a.buffers[i], b.buffers[j]) &&
          (sa.buffers[i].access != Access::kRead || sb.buffers[j].access != Access::kRead))
        return true;
  return false;
}

// reach[x][y]: call y of the schedule written twice is over before call x starts. `without`: an
// edge (x, y) that is left out.
std::vector<std::vector<bool>> reached(const Program& p, std::pair<int64_t, int64_t> without) {
  const auto n = static_cast<int64_t>(p.schedule.size());
  std::vector<std::vector<bool>> reach(static_cast<size_t>(2 * n));
  for (int64_t x = 0; x < 2 * n; ++x) {
    auto& mine = reach[static_cast<size_t>(x)];
    mine.assign(static_cast<size_t>(2 * n), false);
    const auto wait = [&](int64_t y) {
      if (y < 0 || std::pair(x, y) == without) return;
      mine[static_cast<size_t>(y)] = true;
      for (size_t z = 0; z < mine.size(); ++z)
        if (reach[static_cast<size_t>(y)][z]) mine[z] = true;
    };
    const Call& call = p.call(CallId(x % n));
    for (int64_t y = x - 1; y >= 0; --y)
      if (queue_of(p, y % n) == queue_of(p, x % n)) {
        wait(y);
        break;
      }
    for (const CallId y : call.after) wait(y.number() + (x < n ? 0 : n));
    if (x >= n)
      for (const CallId y : call.before_step) wait(y.number());
  }
  return reach;
}

// Whether every two calls in conflict are ordered.
bool covered(const Program& p, const std::vector<std::vector<bool>>& reach) {
  const size_t n = p.schedule.size();
  for (size_t x = 0; x < 2 * n; ++x)
    for (size_t y = 0; y < x; ++y)
      if (!reach[x][y] && conflict(p, p.call(CallId(x % n)), p.call(CallId(y % n)))) return false;
  return true;
}

class AssignBuffers : public ::testing::TestWithParam<int> {
 protected:
  // The same random programs with 1, 2 and 5 queues.
  Program placed(uint64_t seed) const {
    Program p = random_program(seed, {.queues = GetParam()});
    assign_buffers(p, {});
    return p;
  }
};

TEST_P(AssignBuffers, LivesThatMeetShareNoBytes) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Program p = placed(seed);
    for (const BufferId a : p.buffers.ids()) {
      const Interval la = life_of(p, a);
      EXPECT_GE(p.buffer(a).offset, 0);
      EXPECT_EQ(p.buffer(a).offset % 64, 0);
      EXPECT_LE(end_of(p, a), p.bytes);
      if (!p.buffer(a).state) {
        EXPECT_GE(p.buffer(a).offset, p.scratch_offset);
      }
      for (int64_t c = la.first; c <= la.last; ++c)
        EXPECT_FALSE(in_scratch(p, p.call(CallId(c)), a))
            << "seed " << seed << " buffer " << a.number() << " call " << c;
      for (const BufferId b : p.buffers.ids()) {
        if (b == a) break;
        const Interval lb = life_of(p, b);
        const bool for_ever = p.buffer(a).state || p.buffer(b).state;
        if (for_ever || (la.first <= lb.last && lb.first <= la.last)) {
          EXPECT_FALSE(share_bytes(p, a, b))
              << "seed " << seed << " buffers " << a.number() << ' ' << b.number();
        }
      }
    }
  }
}

TEST_P(AssignBuffers, TheFirstThatAddsIsFreshAndNoOther) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Program p = placed(seed);
    IdVector<BufferId, int> touched(p.buffers.size(), 0);
    for (const Call& c : p.schedule) {
      const Segment& s = p.segment(c.segment);
      ASSERT_EQ(c.first_write.size(), c.buffers.size());
      for (size_t i = 0; i < c.buffers.size(); ++i) {
        const bool first = touched[c.buffers[i]]++ == 0;
        EXPECT_EQ(c.first_write[i], first && s.buffers[i].access == Access::kAdd)
            << "seed " << seed;
      }
    }
  }
}

// What must be there at once: state, and at one call its scratch and the buffers alive.
int64_t live_set(const Program& p) {
  int64_t most = 0;
  for (int64_t c = 0; c < static_cast<int64_t>(p.schedule.size()); ++c) {
    int64_t alive = p.state_bytes;
    alive += p.segment(p.call(CallId(c))).scratch_bytes;
    for (const BufferId f : p.buffers.ids()) {
      const Interval life = life_of(p, f);
      if (!p.buffer(f).state && life.first <= c && c <= life.last)
        alive += p.kind(p.buffer(f).kind).bytes;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST_P(AssignBuffers, TheArenaHoldsTheLargestLiveSet) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Program p = placed(seed);
    EXPECT_EQ(p.live_bytes, live_set(p));
    EXPECT_GE(p.bytes, p.live_bytes);
  }
}

TEST_P(AssignBuffers, TheArenaIsHardlyLarger) {
  double sum = 0, most = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Program p = random_program(
        seed, {.buffers = 40, .queues = GetParam(), .largest = 100'000, .scratch = 0});
    assign_buffers(p, {.pad = 0});
    const double ratio = static_cast<double>(p.bytes) / static_cast<double>(p.live_bytes);
    sum += ratio;
    most = std::max(most, ratio);
  }
  EXPECT_LT(sum / kSeeds, 1.03);
  EXPECT_LT(most, 1.2);
}

TEST_P(AssignBuffers, EveryConflictWaitsAndNoWaitIsImplied) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Program p = placed(seed);
    const auto n = static_cast<int64_t>(p.schedule.size());
    EXPECT_TRUE(covered(p, reached(p, {kNone, kNone}))) << "seed " << seed;
    for (int64_t x = 0; x < n; ++x) {
      const Call& call = p.call(CallId(x));
      for (const CallId y : call.after) EXPECT_LT(y.number(), x);
      // In the second copy both kinds of entries hold: without any one, its call is not reached.
      const auto is_reached = [&](int64_t y) -> bool {
        return reached(p, {n + x, y})[static_cast<size_t>(n + x)][static_cast<size_t>(y)];
      };
      for (const CallId y : call.after)
        EXPECT_FALSE(is_reached(n + y.number()))
            << "seed " << seed << " call " << x << " after " << y.number();
      for (const CallId y : call.before_step)
        EXPECT_FALSE(is_reached(y.number()))
            << "seed " << seed << " call " << x << " before_step " << y.number();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Queues, AssignBuffers, ::testing::Values(1, 2, 5));

// Program of one queue whose buffers live in the given intervals.
Program program_of(const std::vector<std::pair<Interval, int64_t>>& lives, int calls) {
  Program p;
  for (int c = 0; c < calls; ++c) {
    Segment s;
    Call call;
    s.subject = "call" + std::to_string(c);
    call.segment = SegmentId(c);
    for (size_t f = 0; f < lives.size(); ++f) {
      const Interval life = lives[f].first;
      if (c != life.first && c != life.last) continue;
      s.buffers.push_back({BufferKindId(f), c == life.first ? Access::kWrite : Access::kRead});
      call.buffers.push_back(BufferId(f));
    }
    p.segments.push_back(s);
    p.schedule.push_back(call);
  }
  for (size_t f = 0; f < lives.size(); ++f) {
    BufferKind k;
    k.name = "buffer" + std::to_string(f);
    k.bytes = lives[f].second;
    p.kinds.push_back(k);
    Buffer buffer;
    buffer.kind = BufferKindId(f);
    p.buffers.push_back(buffer);
  }
  return p;
}

TEST(PlaceByHand, TheBestOfTheOrdersIsTaken) {
  // In the order of birth the last buffer goes above the three others: 448 bytes.
  Program p = program_of({{{0, 1}, 64}, {{0, 3}, 64}, {{1, 2}, 64}, {{2, 3}, 256}}, 4);
  assign_buffers(p, {});
  EXPECT_EQ(p.live_bytes, 384);
  EXPECT_EQ(p.bytes, 384);
}

TEST(PlaceByHand, ScratchIsOneRegionAQueue) {
  Program p = program_of({{{0, 2}, 64}}, 3);
  p.segments[SegmentId(0)].scratch_bytes = 100;
  p.segments[SegmentId(1)].scratch_bytes = 300;
  p.segments[SegmentId(2)].scratch_bytes = 50;
  p.segments[SegmentId(2)].queue = Queue::kData;
  assign_buffers(p, {});
  EXPECT_EQ(scratch_offset(p, Queue::kCompute), 0);
  EXPECT_EQ(scratch_offset(p, Queue::kData), 512);
  EXPECT_EQ(p.buffers[BufferId(0)].offset, 320);  // between the regions
  EXPECT_EQ(p.bytes, 576);
  EXPECT_EQ(p.live_bytes, 364);
}

TEST(PlaceByHand, ABufferUsesScratchThatNoCallOfItsLifeNeeds) {
  Program p = program_of({{{0, 1}, 256}, {{2, 3}, 64}}, 4);
  p.segments[SegmentId(1)].scratch_bytes = 64;
  p.segments[SegmentId(3)].scratch_bytes = 300;
  assign_buffers(p, {});
  EXPECT_EQ(p.buffers[BufferId(0)].offset, 64);
  EXPECT_EQ(p.buffers[BufferId(1)].offset, 320);
  EXPECT_EQ(p.live_bytes, 364);
  EXPECT_EQ(p.bytes, 384);
}

TEST(PlaceByHand, ABufferOfAnotherQueueLivesLonger) {
  // Buffer 0 is read last on the data queue; buffer 1 is born one call later and may not take its
  // bytes, buffer 2 is born two calls later and may.
  Program p = program_of({{{0, 1}, 64}, {{2, 2}, 64}, {{3, 3}, 64}}, 4);
  p.segments[SegmentId(1)].queue = Queue::kData;
  assign_buffers(p, {});
  EXPECT_NE(p.buffers[BufferId(1)].offset, p.buffers[BufferId(0)].offset);
  EXPECT_EQ(p.bytes, 128);
  Program q = program_of({{{0, 1}, 64}, {{2, 2}, 64}, {{3, 3}, 64}}, 4);
  q.segments[SegmentId(1)].queue = Queue::kData;
  assign_buffers(q, {.pad = 0});
  EXPECT_EQ(q.bytes, 64);
}

TEST(PlaceByHand, AClearedBufferIsNotFresh) {
  Program p = program_of({{{0, 2}, 64}}, 3);
  p.segments[SegmentId(2)].buffers[0].access = Access::kAdd;
  assign_buffers(p, {});
  EXPECT_FALSE(p.schedule[CallId(2)].first_write[0]);
}

// Minutes, if buffers of micro-batches that never meet were compared.
TEST(PlaceAtScale, AThousandMicrobatchesTakeSeconds) {
  const auto start = std::chrono::steady_clock::now();
  testing::TrainingProgramOptions options;
  options.layers = 12;
  options.microbatches = 1024;
  const Program p = testing::training_program(options);
  EXPECT_TRUE(check({&p}).empty());
  EXPECT_GT(p.schedule.size(), 50'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(PlaceByHandDeathTest, ABufferNobodyTouchesIsABug) {
  Program p = program_of({{{0, 1}, 64}, {{7, 7}, 64}}, 2);
  EXPECT_DEATH(assign_buffers(p, {}), "no call touches buffer buffer1");
}

}  // namespace
}  // namespace tessera::compile
