#include "measure/rank_rates.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera::measure {
namespace {

TEST(MeetingRounds, EveryPairMeetsOnceAndNobodyTwiceInARound) {
  for (int64_t n = 1; n <= 32; ++n) {
    std::set<std::pair<int64_t, int64_t>> met;
    for (const Round& round : meeting_rounds(n)) {
      std::set<int64_t> busy;
      for (const auto& [a, b] : round) {
        EXPECT_LT(a, b);
        EXPECT_LT(b, n);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second);
        EXPECT_TRUE(met.insert({a, b}).second);
      }
    }
    EXPECT_EQ(static_cast<int64_t>(met.size()), n * (n - 1) / 2);
  }
}

TEST(MeetingRounds, ManyRanksMeetFew) {
  for (const int64_t n : {33, 48, 100, 3072}) {
    std::set<int64_t> seen;
    const auto rounds = meeting_rounds(n);
    EXPECT_LE(rounds.size(), 24U);
    for (const Round& round : rounds) {
      std::set<int64_t> busy;
      for (const auto& [a, b] : round) {
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second);
        seen.insert({a, b});
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), n);
  }
}

// Four hosts of two ranks, all alike.
RankRates alike() {
  RankRates r;
  for (int i = 0; i < 8; ++i) {
    r.hosts.push_back("n0" + std::to_string(i / 2 + 1));
    r.flops.push_back(1.6e11 + 1e9 * i);
  }
  for (const Round& round : meeting_rounds(8))
    for (const auto& [a, b] : round) r.pairs.push_back({a, b, a / 2 == b / 2 ? 5e9 : 1e9});
  return r;
}

TEST(Outliers, NoneAmongEquals) {
  EXPECT_TRUE(outliers(alike()).empty());
  EXPECT_EQ(summary_of(alike())[0], "8 ranks on 4 hosts");
}

TEST(Outliers, ASlowRank) {
  RankRates r = alike();
  r.flops[3] = 4.1e10;
  EXPECT_EQ(outliers(r),
            std::vector<std::string>{"rank 3 on n02 multiplies at 41 GF/s, the median is 163"});
}

TEST(Outliers, ASlowHostIsNamedAndNotThoseThatTalkToIt) {
  RankRates r = alike();
  for (PairRate& p : r.pairs)
    if (r.hosts[static_cast<size_t>(p.a)] != r.hosts[static_cast<size_t>(p.b)] &&
        (p.a / 2 == 2 || p.b / 2 == 2))
      p.bytes_per_s = 1e8;
  EXPECT_EQ(outliers(r),
            std::vector<std::string>{
                "the links of host n03 reach 0.10 GB/s, the median of all hosts is 1.00 GB/s"});
}

TEST(Outliers, ASlowPairWithinAHost) {
  RankRates r = alike();
  for (PairRate& p : r.pairs)
    if (p.a == 6 && p.b == 7) p.bytes_per_s = 1e9;
  EXPECT_EQ(outliers(r), std::vector<std::string>{"ranks 6 and 7 on n04 exchange 1.00 GB/s, the "
                                                  "median within hosts is 5.00 GB/s"});
}

}  // namespace
}  // namespace tessera::measure
