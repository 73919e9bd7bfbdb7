#include "launch/rank_consistency.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::launch {
namespace {

std::vector<RankFacts> alike(int n) {
  std::vector<RankFacts> out;
  for (int i = 0; i < n; ++i)
    out.push_back({i, "n0" + std::to_string(i / 2 + 1), "0.1.0",
                   R"({"batch":{"global":8,"micro":1}})", 1000 + 0.01 * i});
  return out;
}

TEST(RankConsistency, RanksThatAgree) {
  const RankConsistency a = compare(alike(4));
  EXPECT_EQ(a.error, "");
  EXPECT_TRUE(a.warnings.empty());
}

TEST(RankConsistency, NamesTheHostOfAnotherVersion) {
  auto ranks = alike(6);
  ranks[2].version = ranks[3].version = "0.1.1";
  const RankConsistency a = compare(ranks);
  EXPECT_EQ(a.rank, 2);
  EXPECT_EQ(a.error,
            "ranks 2 and 3 on n02 run tessera 0.1.1, the others 0.1.0. Install the same program on "
            "all hosts and start again");
}

TEST(RankConsistency, NamesTheKeyThatDiffers) {
  auto ranks = alike(4);
  ranks[3].config = R"({"batch":{"global":16,"micro":1}})";
  EXPECT_EQ(compare(ranks).error,
            "rank 3 on n02 has another configuration:\n    batch.global = 16, the others 8\n  Give "
            "all hosts the same run file and start again");
}

TEST(RankConsistency, OfTwoTheFirstIsRight) {
  auto ranks = alike(2);
  ranks[1].version = "0.0.9";
  EXPECT_EQ(compare(ranks).rank, 1);
  EXPECT_NE(compare(ranks).error.find("rank 1 on n01 runs tessera 0.0.9"), std::string::npos);
}

TEST(RankConsistency, ClocksApartAreAWarning) {
  auto ranks = alike(4);
  ranks[2].clock_s += 35;
  ranks[3].clock_s += 35;
  ranks[0].clock_s -= 1;
  const RankConsistency a = compare(ranks);
  EXPECT_EQ(a.error, "");
  ASSERT_EQ(a.warnings.size(), 1U);
  EXPECT_NE(a.warnings[0].find("the clock of n02 is 35 s ahead of"), std::string::npos);
}

TEST(RankConsistency, FactsRoundTrip) {
  const RankFacts f = alike(4)[3];
  const RankFacts g = parse_facts(to_text(f));
  EXPECT_EQ(g.rank, 3);
  EXPECT_EQ(g.host, f.host);
  EXPECT_EQ(g.config, f.config);
  EXPECT_EQ(g.clock_s, f.clock_s);
  EXPECT_THROW(parse_facts("{}"), Error);
  EXPECT_THROW(parse_facts("rank 3"), Error);
}

}  // namespace
}  // namespace tessera::launch
