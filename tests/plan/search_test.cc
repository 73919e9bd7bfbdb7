#include "plan/search.h"
#include "compile/compile.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "compile/passes.h"
#include "plan/search_bound.h"
#include "tests/plan/search_cases.h"

namespace tessera::plan {
namespace {

using testing::SearchDraw;

int64_t fullest(const std::vector<Program>& stages) {
  int64_t bytes = 0;
  for (const Program& p : stages) bytes = std::max(bytes, p.bytes);
  return bytes;
}

// Every candidate is another layout, and all can be compiled.
TEST(SearchSpace, CandidatesAreAllDifferentAndPossible) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SearchDraw draw(seed);
    const SearchRequest r = draw.request({4, 8}, {2, 3, 4});
    std::set<std::string> seen;
    for (const Candidate& c : candidates(r)) {
      EXPECT_TRUE(seen.insert(text_of(c)).second) << text_of(c);
      EXPECT_NO_THROW(compile::compile_blocks(request_of(r, c), cluster_target())) << text_of(c);
      const compile::Layout& l = c.layout;
      EXPECT_EQ(l.tensor * l.context * l.pipeline * l.data, r.devices);
      EXPECT_EQ(l.expert, 1);
    }
  }
}

TEST(SearchSpace, HasEveryDegreeOfExpertsAndContexts) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SearchDraw draw(100 + seed);
    SearchRequest r = draw.request({4, 8}, {2, 3});
    draw.experts_of(r);
    r.base.model.experts = 4;
    r.most_context = 4;
    std::set<std::string> seen;
    std::set<int64_t> expert, context;
    for (const Candidate& c : candidates(r)) {
      EXPECT_TRUE(seen.insert(text_of(c)).second) << text_of(c);
      EXPECT_NO_THROW(compile::compile_blocks(request_of(r, c), cluster_target())) << text_of(c);
      EXPECT_EQ(c.layout.data % c.layout.expert, 0);
      expert.insert(c.layout.expert);
      context.insert(c.layout.context);
    }
    EXPECT_TRUE(expert.contains(1) && expert.contains(2));
    EXPECT_TRUE(context.contains(1) && context.contains(2) && context.contains(4));
  }
}

// GPUs do not support a ring, so it is tried only for a run that has one; with attention dropout
// only where its blocks have a multiple of 4 tokens.
TEST(SearchSpace, HasARingIfTheRunHasOne) {
  SearchDraw draw(6);
  SearchRequest r = draw.request({8}, {2});
  r.most_context = 8;
  const auto rings = [&] {
    int64_t found = 0;
    for (const Candidate& c : candidates(r)) {
      if (c.layout.context_method != compile::ContextMethod::kRing) continue;
      EXPECT_NO_THROW(compile::compile_blocks(request_of(r, c), cluster_target())) << text_of(c);
      ++found;
    }
    return found;
  };
  EXPECT_EQ(rings(), 0);
  r.base.layout.context_method = compile::ContextMethod::kRing;
  const int64_t all = rings();
  EXPECT_GT(all, 0);
  r.base.model.attention_dropout = 0.1;
  EXPECT_LT(rings(), all);
}

TEST(SearchSpace, FamiliesWithAnEncoderAndUnfusedAttentionHaveNoContext) {
  SearchDraw draw(5);
  SearchRequest r = draw.request({4}, {2});
  r.most_context = 4;
  r.base.options.attention = compile::AttentionKind::kUnfused;
  for (const Candidate& c : candidates(r)) EXPECT_EQ(c.layout.context, 1);
  r.base.options.attention = compile::AttentionKind::kFused;
  r.base.model.family = model::Family::kT5;
  for (const Candidate& c : candidates(r)) EXPECT_EQ(c.layout.context, 1);
}

// Two ranks have whole blocks of 64 of each matrix of this model, four have not.
TEST(SearchSpace, TensorRanksHaveWholeBlocksOfMoments) {
  SearchDraw draw(7);
  SearchRequest r = draw.request({4}, {2});
  model::apply_family(model::Family::kLlama, r.base.model);
  r.base.model.hidden = 128;
  r.base.model.heads = r.base.model.kv_heads = 4;
  r.base.model.feed_forward = 256;
  r.base.optimizer.kind = OptimizerKind::kAdamW;
  r.base.adapters.rank = 0;
  r.base.groups.clear();
  const auto degrees = [&] {
    std::set<int64_t> all;
    for (const Candidate& c : candidates(r)) all.insert(c.layout.tensor);
    return all;
  };
  EXPECT_EQ(degrees(), (std::set<int64_t>{1, 2, 4}));
  r.base.optimizer.moments = DType::kU8;
  EXPECT_EQ(degrees(), (std::set<int64_t>{1, 2}));
}

TEST(SearchSpace, TheNoiseScaleNeedsSeveralMicroBatches) {
  SearchDraw draw(100);
  SearchRequest r = draw.request({4, 8}, {2, 3});
  draw.experts_of(r);
  r.base.model.experts = 4;
  r.base.measures_noise = true;
  r.most_context = 4;
  ASSERT_FALSE(candidates(r).empty());
  for (const Candidate& c : candidates(r))
    EXPECT_GT(request_of(r, c).microbatches, 1) << text_of(c);
}

// Compares bounds with full simulations of candidates.
struct Closeness {
  int64_t layouts = 0;
  double time = 0, bytes = 0;  // sums of bound / simulated

  void add(const SearchRequest& r, const Hardware& hardware, const Software& software,
           uint64_t seed) {
    const Target target = cluster_target();
    Bounds bounds(r, target, hardware, software);
    const std::vector<Candidate> all = candidates(r);
    const size_t step = all.size() / 12 + 1;
    for (size_t i = seed % step; i < all.size(); i += step) {
      const std::vector<Program> stages = compile::compile_stages(request_of(r, all[i]), target);
      const auto ns = std::llround(simulate(stages, hardware, software).step_s * 1e9);
      const Bound quick = bounds.quick(all[i]), closer = bounds.closer(all[i]);
      const std::string what = fmt::format("seed {}: {}", seed, text_of(all[i]));
      EXPECT_LE(quick.step_ns, closer.step_ns) << what;
      EXPECT_LE(closer.step_ns, ns) << what;
      EXPECT_LE(quick.bytes, closer.bytes) << what;
      EXPECT_LE(closer.bytes, fullest(stages)) << what;
      if (all[i].micro > 1) expect_bound_of_micro_one(r, hardware, software, all[i], quick.bytes);
      time += static_cast<double>(closer.step_ns) / static_cast<double>(ns);
      bytes += static_cast<double>(closer.bytes) / static_cast<double>(fullest(stages));
      ++layouts;
    }
  }

  // Blocks with one sequence bound the bytes of a larger micro-batch.
  static void expect_bound_of_micro_one(const SearchRequest& r, const Hardware& hardware,
                                        const Software& software, const Candidate& larger,
                                        int64_t bytes) {
    const Target target = cluster_target();
    Bounds bounds(r, target, hardware, software);
    EXPECT_EQ(bounds.bytes_by_smaller_micro(larger), 0) << text_of(larger);
    Candidate one = larger;
    one.micro = 1;
    bounds.compile_blocks({&one});
    const int64_t bound = bounds.bytes_by_smaller_micro(larger);
    EXPECT_GT(bound, 0) << text_of(larger);
    EXPECT_LE(bound, bytes) << text_of(larger);
  }

  // Bounds that say little would prune little.
  void expect_close() const {
    const auto n = static_cast<double>(layouts);
    EXPECT_GT(time / n, 0.6);
    EXPECT_GT(bytes / n, 0.5);
    fmt::print("{} layouts: bounds are {:.3f} of the time, {:.3f} of the bytes\n", layouts,
               time / n, bytes / n);
  }
};

TEST(SearchBounds, NoLayoutIsFasterOrSmallerThanItsBounds) {
  Closeness closeness;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SearchDraw draw(1000 + seed);
    SearchRequest r = draw.request({2, 4, 6, 8}, {2, 3, 4, 5});
    r.offload = seed % 4 == 3;
    Hardware hardware = draw.hardware();
    hardware.device.host_bytes_per_s = 1e11;
    closeness.add(r, hardware, draw.software(), seed);
  }
  closeness.expect_close();
}

// Groups of weights without gradients or updates, and state that is not one number per weight.
TEST(SearchBounds, A1_HoldWithFrozenWeightsAdaptersAndEveryOptimizer) {
  const std::vector<std::vector<std::string>> frozen = {
      {},
      {"embed.*"},
      {"layer.*"},
      {"*.bias"},
      {"*.weight"},
      {"embed.*", "layer.*", "head.norm.*"},
      {"embed.*", "head.*", "layer.attn.*", "layer.norm*", "layer.mlp.up.*",
       "layer.mlp.down.weight"}};
  Closeness closeness;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    SearchDraw draw(3000 + seed);
    SearchRequest r = draw.request({2, 4, 8}, {1, 2, 3, 5});
    r.base.optimizer.kind = static_cast<OptimizerKind>(draw.pick({0, 1, 2, 3}));
    if (seed % 8 == 7)
      r.base.adapters.rank = 4;
    else
      r.base.frozen = frozen[seed % 8];
    const Hardware hardware = draw.hardware();
    closeness.add(r, hardware, draw.software(), seed);
    if (seed % 8 > 4) {
      EXPECT_GT(search(r, cluster_target(), hardware, {}).candidates, 0);
    }
  }
  closeness.expect_close();
}

TEST(SearchBounds, HoldWithExpertsThatRanksDivide) {
  Closeness closeness;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SearchDraw draw(5000 + seed);
    SearchRequest r = draw.request({2, 4, 6, 8}, {2, 3, 4});
    draw.experts_of(r);
    r.most_context = draw.pick({1, 4});
    Software software = draw.software();
    software.expert_imbalance = draw.between(1, 3);
    const Hardware hardware = draw.hardware();
    closeness.add(r, hardware, software, seed);
  }
  closeness.expect_close();
}

TEST(SearchBounds, HoldWithLayersOfSeveralKinds) {
  Closeness closeness;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    SearchDraw draw(4000 + seed);
    SearchRequest r = draw.request({2, 4, 6, 8}, {3, 4, 5, 6});
    draw.kinds_of_layers(r.base.model);
    const Hardware hardware = draw.hardware();
    closeness.add(r, hardware, draw.software(), seed);
  }
  closeness.expect_close();
}

TEST(Search, RefusesDevicesThatNoLayoutCanUse) {
  SearchDraw draw(3);
  SearchRequest r = draw.request({4}, {2});
  r.base.model.heads = 2;
  r.devices = 7;
  r.global = 2;
  EXPECT_THROW(search(r, cluster_target(), draw.hardware(), {}), Error);
}

TEST(Search, SaysWhatTheSmallestNeedsWhereNothingFits) {
  SearchDraw draw(4);
  const SearchRequest r = draw.request({4}, {4});
  Hardware hardware = draw.hardware();
  hardware.device.memory_bytes = 1000;
  const SearchResult result = search(r, cluster_target(), hardware, {});
  EXPECT_TRUE(result.best.empty());
  EXPECT_GT(result.smallest_bytes, 1000);
  EXPECT_EQ(result.too_large, result.candidates);
}

TEST(Search, DifferencesAreOfThePartsLargestFirst) {
  Prediction slow, fast;
  slow.parts.bubble = 3;
  fast.parts.bubble = 1;
  slow.parts.exposed[TrafficKind::kTensor] = 1;
  fast.parts.exposed[TrafficKind::kTensor] = 1.5;
  const std::vector<std::string> lines = differences(slow, fast);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "+2.00 s bubble");
  EXPECT_EQ(lines[1], "−500.00 ms exposed tensor traffic");
}

}  // namespace
}  // namespace tessera::plan
