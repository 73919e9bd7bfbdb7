// What ZeRO decides for each stage of it.
#include "compile/context.h"

#include <gtest/gtest.h>

namespace tessera::compile {
namespace {

ZeroPlan plan_of(int64_t data, int64_t zero, ZeroReduce reduce = ZeroReduce::kLast) {
  Layout l;
  l.data = data;
  l.zero = zero;
  l.zero_reduce = reduce;
  return zero_plan(l);
}

TEST(ZeroPlan, OneRankHasNothingToGatherOrReduce) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    const ZeroPlan p = plan_of(1, zero, ZeroReduce::kEach);
    EXPECT_EQ(p.gather, WeightGather::kNever);
    EXPECT_EQ(p.reduce, GradientReduce::kNever);
    EXPECT_FALSE(p.reduces_each || p.divides_optimizer() || p.divides_weights());
  }
}

TEST(ZeroPlan, EachStageDividesMore) {
  EXPECT_EQ(plan_of(4, 0).reduce, GradientReduce::kAllReduce);
  EXPECT_FALSE(plan_of(4, 0).divides_optimizer());
  for (const int64_t zero : {1, 2, 3}) {
    const ZeroPlan p = plan_of(4, zero);
    EXPECT_EQ(p.shards, 4);
    EXPECT_TRUE(p.divides_optimizer());
    EXPECT_EQ(p.reduces_each, zero >= 2);
    EXPECT_EQ(p.divides_weights(), zero == 3);
    EXPECT_EQ(p.gather, zero == 3 ? WeightGather::kPerUse : WeightGather::kPerStep);
  }
  EXPECT_TRUE(plan_of(4, 1, ZeroReduce::kEach).reduces_each);
  EXPECT_FALSE(plan_of(4, 0, ZeroReduce::kEach).reduces_each);
}

TEST(ZeroPlan, StateIsDividedWithinItsGroup) {
  Layout l;
  l.data = 8;
  l.zero_group = 2;
  EXPECT_EQ(zero_plan(l).shards, 2);
}

}  // namespace
}  // namespace tessera::compile
