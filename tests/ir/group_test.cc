#include "ir/group.h"

#include <gtest/gtest.h>

#include "base/enum_array.h"
#include "ir/mesh.h"
#include "ir/names.h"
#include "ir/program.h"

namespace tessera {
namespace {

const GroupRef kTensors = GroupRef::along({AxisKind::kTensor});
const GroupRef kSeveral = GroupRef::along({AxisKind::kTensor, AxisKind::kReplica});

TEST(GroupRef, ComesBackFromItsText) {
  for (const GroupRef& g :
       {GroupRef(), kTensors, kSeveral, GroupRef::world(), GroupRef::of_stages({0, 13})}) {
    const auto read = group_named(to_string(g));
    ASSERT_TRUE(read.has_value()) << to_string(g);
    EXPECT_TRUE(*read == g) << to_string(g);
  }
  EXPECT_EQ(to_string(GroupRef()), "");
  EXPECT_EQ(to_string(kSeveral), "replica+tensor");
  EXPECT_EQ(to_string(GroupRef::of_stages({0, 13})), "stages:0,13");
}

TEST(GroupRef, OfNoOtherText) {
  for (const char* text : {"data", "tensor+", "+tensor", "stages:", "stages:1,", "stages:-1",
                           "stages:a", "stage:2", "worlds"})
    EXPECT_FALSE(group_named(text).has_value()) << text;
}

TEST(GroupRef, NamesRanksOfAMesh) {
  Mesh mesh;
  mesh[AxisKind::kPipeline] = 3;
  mesh[AxisKind::kReplica] = 2;
  mesh[AxisKind::kTensor] = 2;
  const std::vector<int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(group_of(mesh, kTensors, 7), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(group_of(mesh, kSeveral, 7), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(group_of(mesh, GroupRef::of_stages({1, 2}), 7), (std::vector<int64_t>{7, 11}));
  EXPECT_EQ(group_of(mesh, GroupRef::world(), 7), all);
  EXPECT_EQ(group_of(mesh, GroupRef(), 7), std::vector<int64_t>{7});
  for (const GroupRef& g :
       {GroupRef(), kTensors, kSeveral, GroupRef::world(), GroupRef::of_stages({1, 2})}) {
    const std::vector<int64_t> ranks = group_of(mesh, g, 7);
    EXPECT_EQ(group_size(mesh, g), std::ssize(ranks)) << to_string(g);
    EXPECT_EQ(ranks.at(static_cast<size_t>(group_index(mesh, g, coordinates_of(mesh, 7)))), 7)
        << to_string(g);
  }
}

TEST(SegmentName, TellsPhaseAndSubject) {
  for (const Phase phase : Enumerators<Phase>())
    for (const char* subject : {"", "layer", "layer.tensor", "hidden"}) {
      Segment s, read;
      s.phase = phase;
      s.subject = subject;
      read.set_name(s.name());
      EXPECT_TRUE(read == s) << s.name();
    }
  EXPECT_EQ(segment_name(Phase::kForward, "layer"), "forward.layer");
  EXPECT_EQ(segment_name(Phase::kJoint, "head"), "head");
  EXPECT_EQ(segment_name(Phase::kSumReport, ""), "sum.report");
}

// Rank 1 of 3 has the chunks 1 and 4 of 6, and in the order of ranks the chunks are 0 5 1 4 2 3.
TEST(TokenRanges, OfTwoChunksPerRank) {
  using Ranges = std::vector<TokenRange>;
  EXPECT_EQ(token_ranges(12, 3, 4, 4), (Ranges{{0, 2, 2}, {2, 8, 2}}));
  EXPECT_EQ(token_ranges(12, 3, 0, 12),
            (Ranges{{0, 0, 2}, {2, 10, 2}, {4, 2, 2}, {6, 8, 2}, {8, 4, 2}, {10, 6, 2}}));
  // Tensor ranks may divide the chunks of a rank unevenly: the second of three has the end of one
  // and the beginning of the other.
  EXPECT_EQ(token_ranges(36, 2, 6, 6), (Ranges{{0, 6, 3}, {3, 27, 3}}));
}

// Context ranks divide tokens outside the tensor ranks, and heads inside them.
TEST(GlobalBox, NestsContextOutsideOrInsideTensor) {
  Mesh mesh;
  mesh[AxisKind::kContext] = mesh[AxisKind::kTensor] = 2;
  Coordinates at{};
  at[AxisKind::kContext] = 1;  // and the first tensor rank
  Value v;
  v.shape = {1, 8, 8, 4};
  v.sharding.place[AxisKind::kContext] = v.sharding.place[AxisKind::kTensor] = 1;
  localise(v, mesh);
  EXPECT_EQ(global_box_of(v, mesh, at).begin[1], 4);
  v.sharding.place[AxisKind::kContext] = v.sharding.place[AxisKind::kTensor] = 2;
  v.sharding.cut = ContextCut::kHeads;
  localise(v, mesh);
  EXPECT_EQ(global_box_of(v, mesh, at).begin[2], 2);
}

}  // namespace
}  // namespace tessera
