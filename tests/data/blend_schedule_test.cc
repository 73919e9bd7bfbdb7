#include "data/blend_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::data {
namespace {

BlendSchedule three_stages() {
  return BlendSchedule({{0, {0, 1}, {3, 1}}, {1000, {1, 2}, {1, 1}}, {1500, {0}, {1}}}, 3);
}

TEST(BlendSchedule, GoesOnWhereAStageHasLeftASource) {
  BlendSchedule mixture = three_stages();
  std::vector<int64_t> given(3, 0);
  for (int64_t s = 0; s < 2000; ++s) {
    const Blend::Pick pick = mixture.at(s);
    ASSERT_EQ(pick.index, given[static_cast<size_t>(pick.source)]++) << s;
    const bool known = s < 1000 ? pick.source != 2 : s < 1500 ? pick.source != 0 : pick.source == 0;
    ASSERT_TRUE(known) << s;
  }
  EXPECT_EQ(given, (std::vector<int64_t>{1250, 500, 250}));
  for (int source = 0; source < 3; ++source) {
    EXPECT_NEAR(mixture.expected(source, 2000),
                static_cast<double>(given[static_cast<size_t>(source)]), 1);
  }
  EXPECT_EQ(mixture.expected(2, 1000), 0);
}

TEST(BlendSchedule, IsTheSameFromAnySample) {
  BlendSchedule in_order = three_stages();
  std::vector<Blend::Pick> picks;
  for (int64_t s = 0; s < 2000; ++s) picks.push_back(in_order.at(s));
  for (const int64_t s : {1999, 3, 1500, 1499, 1000, 999, 0, 1234}) {
    BlendSchedule fresh = three_stages();
    const Blend::Pick pick = fresh.at(s), wanted = picks[static_cast<size_t>(s)];
    EXPECT_EQ(pick.source, wanted.source);
    EXPECT_EQ(pick.index, wanted.index);
  }
  EXPECT_EQ(in_order.stage_of(0), 0);
  EXPECT_EQ(in_order.stage_of(1000), 1);
  EXPECT_EQ(in_order.stage_of(5000), 2);
}

}  // namespace
}  // namespace tessera::data
