// search() against simulating every layout.
#include <gtest/gtest.h>

#include "compile/compile.h"
#include "compile/passes.h"
#include "plan/search.h"
#include "tests/plan/search_cases.h"

namespace tessera::plan {
namespace {

using testing::SearchDraw;

void expect_same(const SearchResult& pruned, const SearchResult& all, const std::string& what) {
  ASSERT_EQ(pruned.best.size(), all.best.size()) << what;
  for (size_t i = 0; i < all.best.size(); ++i) {
    EXPECT_EQ(text_of(pruned.best[i].candidate), text_of(all.best[i].candidate)) << what;
    EXPECT_EQ(pruned.best[i].prediction.step_s, all.best[i].prediction.step_s) << what;
  }
}

// Verifying each pass of the many thousand programs would take longer than compiling them.
class SearchBruteForce : public ::testing::Test {
 protected:
  void SetUp() override { compile::verify_after_each_pass(false); }
};

SearchResult brute_force(SearchRequest r, const Hardware& h, const Software& s) {
  r.prune = false;
  return search(r, cluster_target(), h, s);
}

TEST_F(SearchBruteForce, FiftySmallCasesHaveTheSameAnswerWithoutPruning) {
  int64_t pruned = 0, candidates = 0, with_answer = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SearchDraw draw(seed);
    SearchRequest r = draw.request({1, 2, 3, 4}, {2, 3, 4});
    r.threads = 1 + seed % 3;
    const Hardware h = draw.hardware();
    const Software s = draw.software();
    const SearchResult fast = search(r, cluster_target(), h, s), all = brute_force(r, h, s);
    expect_same(fast, all, fmt::format("seed {}", seed));
    pruned += fast.candidates - fast.simulated;
    candidates += fast.candidates;
    with_answer += !all.best.empty();
  }
  fmt::print("{} candidates, {} pruned, {} cases with an answer\n", candidates, pruned,
             with_answer);
  EXPECT_GE(with_answer, 25);
  EXPECT_GT(pruned, candidates / 4);
}

TEST_F(SearchBruteForce, ThreeCasesWithTwoThousandLayoutsThatFit) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SearchDraw draw(500 + seed);
    SearchRequest r = draw.request({16}, {8});
    r.base.model.heads = 4;
    r.base.model.hidden = 64;
    model::derive_sizes(r.base.model);
    r.global = 16;
    r.most_interleave = 4;
    Hardware h = draw.hardware();
    h.device.memory_bytes = 1e7;
    const Software s = draw.software();
    const SearchResult fast = search(r, cluster_target(), h, s), all = brute_force(r, h, s);
    EXPECT_GE(std::ssize(all.fitting), 2000);
    expect_same(fast, all, fmt::format("seed {}", seed));
    fmt::print("{} candidates, {} fit: {} simulated of {}\n", all.candidates, all.fitting.size(),
               fast.simulated, all.simulated);
    EXPECT_LT(fast.simulated, all.simulated / 2);
  }
}

TEST_F(SearchBruteForce, WithActivationsAndStateInTheHostsMemory) {
  int64_t with_answer = 0, offloaded = 0, of_optimizer = 0, pruned = 0, candidates = 0;
  for (uint64_t seed = 1200; seed < 1230; ++seed) {
    SearchDraw draw(seed);
    SearchRequest r = draw.request({1, 2, 3}, {2, 3, 5});
    r.offload = true;
    Hardware h = draw.hardware();
    h.device.memory_bytes = draw.between(1e6, 6e6);
    h.device.host_bytes_per_s = draw.between(1e9, 1e12);
    h.device.host_memory_bytes = draw.pick({0, 1}) == 0 ? 0 : draw.between(1e5, 1e6);
    const Software s = draw.software();
    const SearchResult fast = search(r, cluster_target(), h, s), all = brute_force(r, h, s);
    expect_same(fast, all, fmt::format("seed {}", seed));
    EXPECT_EQ(all.candidates % 4, 0);
    with_answer += !all.best.empty();
    for (const RankedLayout& f : all.best) {
      offloaded += f.candidate.layout.offload != "none";
      of_optimizer += f.candidate.layout.offload == "optimizer";
    }
    pruned += fast.candidates - fast.simulated;
    candidates += fast.candidates;
  }
  fmt::print("{} candidates, {} pruned, {} cases with an answer, {} of the best offload\n",
             candidates, pruned, with_answer, offloaded);
  EXPECT_GE(with_answer, 15);
  EXPECT_GT(offloaded, of_optimizer);
  EXPECT_GT(of_optimizer, 0);
  EXPECT_GT(pruned, candidates / 4);
}

TEST_F(SearchBruteForce, ModelsWithAnEncoder) {
  int64_t with_answer = 0, simulated = 0, all_simulated = 0, pruned_by_bound = 0;
  // The last: where sums that go back to the encoder begin was once counted wrongly.
  for (const uint64_t seed :
       {900u, 901u, 902u, 903u, 904u, 905u, 906u, 907u, 908u, 909u, 910u, 911u, 988u}) {
    SearchDraw draw(seed);
    SearchRequest r = draw.request({2, 4}, {1, 2});
    r.base.model.family = model::Family::kT5;
    r.base.model.encoder_layers = draw.pick({1, 2, 3});
    r.base.model.tied_embeddings = draw.pick({0, 1}) == 1;
    model::apply_family(model::Family::kT5, r.base.model);
    model::derive_sizes(r.base.model);
    r.base.encoder_tokens = draw.pick({16, 32, 64});
    const Hardware h = draw.hardware();
    const Software s = draw.software();
    const SearchResult fast = search(r, cluster_target(), h, s), all = brute_force(r, h, s);
    expect_same(fast, all, fmt::format("seed {}", seed));
    with_answer += !all.best.empty();
    simulated += fast.simulated;
    all_simulated += all.simulated;
    pruned_by_bound += fast.too_large + fast.too_slow;
  }
  EXPECT_GE(with_answer, 6);
  EXPECT_LT(simulated, all_simulated / 2);
  EXPECT_GT(pruned_by_bound, all_simulated / 2);
}

TEST_F(SearchBruteForce, ModelsWithLayersOfSeveralKinds) {
  int64_t with_answer = 0, simulated = 0, all_simulated = 0;
  for (uint64_t seed = 1300; seed < 1312; ++seed) {
    SearchDraw draw(seed);
    SearchRequest r = draw.request({2, 4}, {2, 3, 5});
    draw.kinds_of_layers(r.base.model);
    const Hardware h = draw.hardware();
    const Software s = draw.software();
    const SearchResult fast = search(r, cluster_target(), h, s), all = brute_force(r, h, s);
    expect_same(fast, all, fmt::format("seed {}", seed));
    with_answer += !all.best.empty();
    simulated += fast.simulated;
    all_simulated += all.simulated;
  }
  EXPECT_GE(with_answer, 5);
  EXPECT_LT(simulated, all_simulated / 2);
}

// A search of experts and contexts finds what simulating every layout finds.
TEST_F(SearchBruteForce, ModelsWithExperts) {
  int64_t with_answer = 0, simulated = 0, all_simulated = 0, experts = 0, contexts = 0;
  for (uint64_t seed = 1400; seed < 1412; ++seed) {
    SearchDraw draw(seed);
    SearchRequest r = draw.request({2, 4}, {2, 3});
    draw.experts_of(r);
    r.most_context = draw.pick({1, 2, 4});
    Hardware h = draw.hardware();
    h.device.memory_bytes = draw.between(1e6, 8e6);
    Software s = draw.software();
    s.expert_imbalance = draw.between(1, 3);
    if (seed % 2 == 0) {  // dividing the experts costs little, and saves reading their weights
      h.node.devices = 8;
      h.node.bytes_per_s = h.node.package_bytes_per_s = 1e13;
      h.node.latency_s = 1e-10;
      h.device.memory_bytes_per_s = 1e10;
      s.expert_imbalance = 1;
    }
    const SearchResult fast = search(r, cluster_target(), h, s), all = brute_force(r, h, s);
    expect_same(fast, all, fmt::format("seed {}", seed));
    with_answer += !all.best.empty();
    simulated += fast.simulated;
    all_simulated += all.simulated;
    for (const RankedLayout& f : all.best) {
      experts += f.candidate.layout.expert > 1;
      contexts += f.candidate.layout.context > 1;
    }
  }
  fmt::print(
      "{} of {} simulated, {} cases with an answer, {} of the best divide experts, {} "
      "sequences\n",
      simulated, all_simulated, with_answer, experts, contexts);
  EXPECT_GE(with_answer, 8);
  EXPECT_GT(experts, 0);
  EXPECT_GT(contexts, 0);
  EXPECT_LT(simulated, all_simulated / 2);
}

// What search() reports is what simulate() says of the programs that compile_stages() makes.
TEST_F(SearchBruteForce, TheBestAreSimulatedInFull) {
  SearchDraw draw(77);
  const SearchRequest r = draw.request({8}, {4});
  Hardware h = draw.hardware();
  h.device.memory_bytes = 1e7;
  const SearchResult result = search(r, cluster_target(), h, {});
  ASSERT_EQ(result.best.size(), r.keep);
  for (const RankedLayout& f : result.best) {
    const auto stages = compile::compile_stages(request_of(r, f.candidate), cluster_target());
    const Prediction p = simulate(stages, h, {});
    EXPECT_EQ(p.step_s, f.prediction.step_s);
    EXPECT_EQ(p.fullest().peak_bytes, f.prediction.fullest().peak_bytes);
  }
}

}  // namespace
}  // namespace tessera::plan
