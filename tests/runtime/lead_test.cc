#include "runtime/lead.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// Three frames of 64 bytes; a gather of each, one behind the other in one queue.
class Lead : public testing::Test {
 protected:
  Lead() {
    p_.kinds.resize(1);
    p_.kinds[0].bytes = 64;
    p_.frames.resize(3);
    p_.schedule.resize(3);
    for (size_t i = 0; i < 3; ++i) {
      p_.frames[i].kind = 0;
      p_.frames[i].offset = 64 * static_cast<int64_t>(i);
      p_.schedule[i].segment = 0;
      p_.schedule[i].frames = {static_cast<FrameId>(i)};
    }
    p_.scratch_offset = 256;
    Segment& gather = p_.segments.emplace_back();
    gather.frames = {{0, Access::kUpdate}};
    gather.queue = Queue::kData;
    gather.ops.emplace_back().kind = OpKind::kAllGather;
  }
  std::vector<bool> leads() const { return calls_that_may_lead(p_); }

  Program p_;
};

TEST_F(Lead, BehindOneThatSharesNothing) {
  EXPECT_EQ(leads(), (std::vector<bool>{false, true, true}));
}

TEST_F(Lead, NotWhereBytesAreShared) {
  p_.frames[1].offset = 32;
  EXPECT_EQ(leads(), (std::vector<bool>{false, false, true}));
  p_.segments[0].frames[0].access = Access::kRead;
  EXPECT_EQ(leads(), (std::vector<bool>{false, true, true}));
}

TEST_F(Lead, NotWhereScratchIsShared) {
  p_.segments[0].scratch_bytes = 8;
  EXPECT_EQ(leads(), (std::vector<bool>{false, false, false}));
}

// A frame may lie where the queue's scratch is free for the smaller of two calls.
TEST_F(Lead, NotWhereItsScratchIsAFrameOfTheOther) {
  p_.segments.push_back(p_.segments[0]);
  p_.segments[1].scratch_bytes = 8;
  p_.schedule[1].segment = 1;
  p_.frames[0].offset = 256;
  EXPECT_EQ(leads(), (std::vector<bool>{false, false, true}));
}

TEST_F(Lead, NotWhereATransferIsFollowedByAnOpOrAnother) {
  p_.segments[0].ops.emplace_back().kind = OpKind::kSum;
  EXPECT_EQ(leads(), (std::vector<bool>{false, false, false}));
  p_.segments[0].ops.back().kind = OpKind::kAllGather;
  EXPECT_EQ(leads(), (std::vector<bool>{false, false, false}));
}

TEST_F(Lead, EachQueueIsItsOwnLine) {
  p_.segments.push_back(p_.segments[0]);
  p_.segments[1].queue = Queue::kGroups;
  p_.schedule[1].segment = 1;
  p_.frames[2].offset = 0;
  EXPECT_EQ(leads(), (std::vector<bool>{false, false, false}));
}

}  // namespace
}  // namespace tessera
