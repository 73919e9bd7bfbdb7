// Properties of pipeline schedules for random stages, chunks, micro-batches and costs.
#include "compile/schedule/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "base/error.h"
#include "compile/schedule/layer_costs.h"

namespace tessera::compile {
namespace {

using Lists = std::vector<std::vector<Action>>;
using Draw = std::mt19937_64;

int64_t draw(Draw& d, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(d);
}

constexpr const char* kNames[] = {"gpipe", "1f1b", "interleaved_1f1b", "zero_bubble"};

std::string text(const PipelineShape& p) {
  return fmt::format("{} stages {} interleave {} micro-batches {} costs {}",
                     kNames[static_cast<int>(p.schedule)], p.stages, p.interleave, p.microbatches,
                     fmt::join(p.cost, ","));
}

PipelineShape random_shape(Draw& d) {
  PipelineShape p;
  p.schedule = static_cast<PipelineSchedule>(draw(d, 0, 3));
  p.stages = draw(d, 1, 8);
  if (p.schedule == PipelineSchedule::kInterleaved1F1B) p.interleave = draw(d, 1, 4);
  p.microbatches = draw(d, 1, 20);
  p.backward = draw(d, 0, 9) > 0;
  const int64_t most = draw(d, 1, 5);
  if (draw(d, 0, 3) > 0)
    for (int64_t c = 0; c < p.chunks(); ++c) p.cost.push_back(draw(d, 1, most));
  return p;
}

bool splits(const PipelineShape& p) { return p.schedule == PipelineSchedule::kZeroBubble; }

int64_t kinds(const PipelineShape& p) { return p.backward ? (splits(p) ? 3 : 2) : 1; }

int64_t makespan(const Lists& lists) {
  int64_t last = 0;
  for (const auto& list : lists)
    if (!list.empty()) last = std::max(last, list.back().finish);
  return last;
}

using Finish = std::map<std::tuple<ActionKind, int64_t, int64_t>, Action>;

// Each action once, on its stage, and in each list one after the other.
Finish expect_complete(const PipelineShape& p, const Lists& lists) {
  Finish all;
  for (int64_t s = 0; s < p.stages; ++s) {
    int64_t free = 0;
    for (const Action& a : lists[static_cast<size_t>(s)]) {
      EXPECT_TRUE(all.emplace(std::tuple(a.kind, a.chunk, a.microbatch), a).second);
      EXPECT_EQ(a.chunk % p.stages, s);
      EXPECT_GE(a.start, free);
      free = a.finish;
      const int64_t forward = p.cost.empty() ? 1 : p.cost[static_cast<size_t>(a.chunk)];
      const bool both = a.kind == ActionKind::kBackward && !splits(p);
      EXPECT_EQ(a.finish - a.start, both ? 2 * forward : forward);
    }
  }
  EXPECT_EQ(static_cast<int64_t>(all.size()), p.chunks() * p.microbatches * kinds(p));
  return all;
}

void expect_dependencies(const PipelineShape& p, const Finish& all) {
  const auto before = [&](const Action& a, ActionKind kind, int64_t chunk) {
    const auto found = all.find({kind, chunk, a.microbatch});
    ASSERT_NE(found, all.end());
    EXPECT_GE(a.start, found->second.finish);
  };
  for (const auto& [key, a] : all) {
    if (a.kind == ActionKind::kForward && a.chunk > 0) before(a, a.kind, a.chunk - 1);
    if (a.kind == ActionKind::kBackward) {
      before(a, ActionKind::kForward, a.chunk);
      if (a.chunk + 1 < p.chunks()) before(a, a.kind, a.chunk + 1);
    }
    if (a.kind == ActionKind::kWeights) before(a, ActionKind::kBackward, a.chunk);
  }
}

// Messages of one direction and the sums of gradients rely on it.
void expect_microbatches_in_order(const Lists& lists) {
  for (const auto& list : lists) {
    std::map<std::pair<ActionKind, int64_t>, int64_t> next;
    for (const Action& a : list) EXPECT_EQ(a.microbatch, (next[{a.kind, a.chunk}]++));
  }
}

int64_t in_flight(const PipelineShape& p, const std::vector<Action>& list) {
  int64_t now = 0, most = 0;
  for (const Action& a : list) {
    if (a.kind == ActionKind::kForward) most = std::max(most, ++now);
    if (a.kind == (splits(p) ? ActionKind::kWeights : ActionKind::kBackward)) --now;
  }
  return most;
}

TEST(Pipeline, RandomSchedulesAreSound) {
  Draw d(20);
  for (int i = 0; i < 3000; ++i) {
    const PipelineShape p = random_shape(d);
    SCOPED_TRACE(text(p));
    const Lists lists = pipeline_actions(p);
    expect_dependencies(p, expect_complete(p, lists));
    expect_microbatches_in_order(lists);
    for (int64_t s = 0; p.backward && s < p.stages; ++s)
      EXPECT_LE(in_flight(p, lists[static_cast<size_t>(s)]), most_in_flight(p, s)) << "stage " << s;
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

TEST(Pipeline, GpipeAnd1f1bTakeTheirFormula) {
  for (const PipelineSchedule schedule : {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B})
    for (int64_t stages = 1; stages <= 9; ++stages)
      for (int64_t m = 1; m <= 25; ++m)
        for (const int64_t forward : {1, 3}) {
          const PipelineShape p = {schedule, stages, 1, m,
                                   std::vector<int64_t>(static_cast<size_t>(stages), forward)};
          EXPECT_EQ(makespan(pipeline_actions(p)), (m + stages - 1) * 3 * forward) << text(p);
        }
}

TEST(Pipeline, OneForwardOneBackwardHoldsAsManyAsStagesAreBehind) {
  for (int64_t stages = 1; stages <= 9; ++stages)
    for (int64_t m = 1; m <= 12; ++m) {
      const PipelineShape p = {PipelineSchedule::k1F1B, stages, 1, m, {}};
      const Lists lists = pipeline_actions(p);
      for (int64_t s = 0; s < stages; ++s)
        EXPECT_EQ(in_flight(p, lists[static_cast<size_t>(s)]), std::min(m, stages - s));
    }
}

// V chunks a stage make the bubble V times smaller: (m V + S − 1) (F + B) of a chunk.
TEST(Pipeline, InterleavedTakesItsFormula) {
  for (int64_t stages = 2; stages <= 8; ++stages)
    for (int64_t chunks = 2; chunks <= 4; ++chunks)
      for (int64_t groups = 1; groups <= 4; ++groups) {
        const int64_t m = groups * stages;
        const PipelineShape p = {PipelineSchedule::kInterleaved1F1B, stages, chunks, m, {}};
        EXPECT_EQ(makespan(pipeline_actions(p)), 3 * (m * chunks + stages - 1)) << text(p);
      }
}

// Interleaved over micro-batches that are no multiple of the stages stays near that formula.
TEST(Pipeline, InterleavedGreedyIsNoWorseThanOneGroupMore) {
  for (int64_t stages = 2; stages <= 8; ++stages)
    for (int64_t chunks = 2; chunks <= 4; ++chunks)
      for (int64_t m = 1; m <= 20; ++m) {
        const PipelineShape p = {PipelineSchedule::kInterleaved1F1B, stages, chunks, m, {}};
        const int64_t up = (m + stages - 1) / stages * stages;
        EXPECT_LE(makespan(pipeline_actions(p)), 3 * (up * chunks + stages - 1)) << text(p);
      }
}

TEST(Pipeline, ZeroBubbleIdlesAThirdToTwoThirds) {
  for (int64_t stages = 2; stages <= 12; ++stages)
    for (int64_t m = 2 * stages; m <= 40; m += 3) {
      const PipelineShape p = {PipelineSchedule::kZeroBubble, stages, 1, m, {}};
      const auto idle = static_cast<double>(makespan(pipeline_actions(p)) - 3 * m);
      const auto of_1f1b = static_cast<double>(3 * (stages - 1));
      EXPECT_LE(idle / of_1f1b, 0.67) << text(p);
      EXPECT_GE(idle / of_1f1b, 0.33) << text(p);
    }
}

TEST(Pipeline, ZeroBubbleIsNeverSlowerThan1f1b) {
  Draw d(21);
  for (int i = 0; i < 300; ++i) {
    PipelineShape p = {PipelineSchedule::kZeroBubble, draw(d, 2, 8), 1, draw(d, 1, 24), {}};
    const int64_t zero_bubble = makespan(pipeline_actions(p));
    p.schedule = PipelineSchedule::k1F1B;
    EXPECT_LE(zero_bubble, makespan(pipeline_actions(p))) << text(p);
  }
}

double cost_of_chunk(const std::vector<int64_t>& spread, size_t c, double embedding, double head) {
  return static_cast<double>(spread[c]) + (c == 0 ? embedding : 0) +
         (c + 1 == spread.size() ? head : 0);
}

double costliest(const std::vector<int64_t>& spread, double embedding, double head) {
  double most = 0;
  for (size_t c = 0; c < spread.size(); ++c)
    most = std::max(most, cost_of_chunk(spread, c, embedding, head));
  return most;
}

// Every way to give `layers` to the chunks from `c` on.
void each_spread(std::vector<int64_t>& spread, size_t c, int64_t layers,
                 const std::function<void()>& visit) {
  if (c + 1 == spread.size()) {
    spread[c] = layers;
    return visit();
  }
  for (spread[c] = 0; spread[c] <= layers; ++spread[c])
    each_spread(spread, c + 1, layers - spread[c], visit);
}

TEST(SpreadLayers, NoSpreadHasACheaperCostliestChunk) {
  Draw d(22);
  for (int i = 0; i < 200; ++i) {
    const int64_t layers = draw(d, 0, 9), chunks = draw(d, 1, 4);
    const double embedding = static_cast<double>(draw(d, 0, 12)) / 4;
    const double head = static_cast<double>(draw(d, 0, 12)) / 4;
    const auto found = spread_layers(layers, chunks, embedding, head);
    ASSERT_EQ(static_cast<int64_t>(found.size()), chunks);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), int64_t{0}), layers);
    std::vector<int64_t> other(static_cast<size_t>(chunks));
    double best = 1e9;
    each_spread(other, 0, layers,
                [&] { best = std::min(best, costliest(other, embedding, head)); });
    EXPECT_DOUBLE_EQ(costliest(found, embedding, head), best);
  }
}

TEST(SpreadLayers, EqualWhereEndsCostNothing) {
  for (int64_t chunks = 1; chunks <= 12; ++chunks)
    for (int64_t layers = 0; layers <= 40; ++layers) {
      const auto found = spread_layers(layers, chunks, 0, 0);
      const auto [least, most] = std::minmax_element(found.begin(), found.end());
      EXPECT_LE(*most - *least, 1) << layers << " over " << chunks;
    }
}

}  // namespace
}  // namespace tessera::compile
