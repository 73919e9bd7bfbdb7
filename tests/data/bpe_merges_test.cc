#include "data/bpe_merges.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tessera::data {
namespace {

using Rules = std::map<std::pair<int32_t, int32_t>, Merge>;

// The definition, word for word: the lowest rank, the leftmost of those, again and again.
std::vector<int32_t> by_definition(std::vector<int32_t> ids, const Rules& rules) {
  for (;;) {
    size_t best = ids.size();
    Merge merge;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule == rules.end() || rule->second.rank >= merge.rank) continue;
      best = i;
      merge = rule->second;
    }
    if (best == ids.size()) return ids;
    ids[best] = merge.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::vector<int32_t> merged(const MergeTable& table, std::vector<int32_t> ids) {
  ids.resize(table.apply(ids));
  return ids;
}

TEST(MergeTable, FollowsTheDefinitionForShortAndLongWords) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    constexpr int32_t kLetters = 4, kMerges = 60;
    Rules rules;
    std::vector<uint32_t> ranks(kMerges);
    for (uint32_t i = 0; i < kMerges; ++i) ranks[i] = i;
    std::shuffle(ranks.begin(), ranks.end(), random);
    for (int32_t i = 0; i < kMerges; ++i) {
      const auto any = [&] { return static_cast<int32_t>(random() % uint32_t(kLetters + i)); };
      rules[{any(), any()}] = {ranks[static_cast<size_t>(i)], kLetters + i};
    }
    MergeTable table(rules.size());
    for (const auto& [pair, merge] : rules) table.add(pair.first, pair.second, merge);
    for (const size_t length : std::initializer_list<size_t>{0, 1, 2, 3, 20, 48, 49, 50, 300}) {
      std::vector<int32_t> ids(length);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % kLetters);
      ASSERT_EQ(merged(table, ids), by_definition(ids, rules)) << "length " << length;
    }
  }
}

// Quadratic work on a million symbols would take minutes.
TEST(MergeTable, TakesAMillionOfOneSymbol) {
  MergeTable table(20);
  for (int32_t i = 0; i < 20; ++i) table.add(i, i, {static_cast<uint32_t>(i), i + 1});
  const auto ids = merged(table, std::vector<int32_t>(1 << 20, 0));
  EXPECT_EQ(ids, std::vector<int32_t>{20});
}

TEST(MergeTable, LetsALaterPairReplaceAnEarlierOne) {
  MergeTable table(2);
  table.add(1, 2, {0, 3});
  table.add(1, 2, {5, 4});
  EXPECT_EQ(table.find(1, 2).id, 4);
  EXPECT_EQ(table.find(1, 2).rank, 5u);
  EXPECT_EQ(table.find(2, 1).rank, Merge::kNone);
}

}  // namespace
}  // namespace tessera::data
