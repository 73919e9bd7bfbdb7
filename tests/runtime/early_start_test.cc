#include "runtime/early_start.h"

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace {

// Three buffers of 64 bytes; a gather of each, one behind the other in one queue.
class Lead : public testing::Test {
 protected:
  Lead() {
    p_.kinds.resize(1);
    p_.kinds[BufferKindId(0)].bytes = 64;
    p_.buffers.resize(3);
    p_.schedule.resize(3);
    for (const BufferId f : p_.buffers.ids()) {
      p_.buffers[f].kind = BufferKindId(0);
      p_.buffers[f].offset = 64 * f.number();
      p_.schedule[CallId(f.number())].segment = SegmentId(0);
      p_.schedule[CallId(f.number())].buffers = {f};
    }
    p_.scratch_offset = 256;
    Segment& gather = p_.segments[p_.segments.emplace_back()];
    gather.buffers = {{BufferKindId(0), Access::kUpdate}};
    gather.queue = Queue::kData;
    gather.ops.emplace_back().attributes = AllGather{};
  }
  IdVector<CallId, bool> leads() const { return calls_that_may_start_early(p_); }

  Program p_;
};

TEST_F(Lead, BehindOneThatSharesNothing) {
  EXPECT_EQ(leads(), (IdVector<CallId, bool>{false, true, true}));
}

TEST_F(Lead, NotWhereBytesAreShared) {
  p_.buffers[BufferId(1)].offset = 32;
  EXPECT_EQ(leads(), (IdVector<CallId, bool>{false, false, true}));
  p_.segments[SegmentId(0)].buffers[0].access = Access::kRead;
  EXPECT_EQ(leads(), (IdVector<CallId, bool>{false, true, true}));
}

TEST_F(Lead, NotWhereScratchIsShared) {
  p_.segments[SegmentId(0)].scratch_bytes = 8;
  EXPECT_EQ(leads(), (IdVector<CallId, bool>{false, false, false}));
}

// A buffer may lie where the queue's scratch is free for the smaller of two calls.
TEST_F(Lead, NotWhereItsScratchIsABufferOfTheOther) {
  p_.segments.push_back(p_.segments[SegmentId(0)]);
  p_.segments[SegmentId(1)].scratch_bytes = 8;
  p_.schedule[CallId(1)].segment = SegmentId(1);
  p_.buffers[BufferId(0)].offset = 256;
  EXPECT_EQ(leads(), (IdVector<CallId, bool>{false, false, true}));
}

TEST_F(Lead, NotWhereATransferIsFollowedByAnOpOrAnother) {
  p_.segments[SegmentId(0)].ops.emplace_back().attributes = Sum{};
  EXPECT_EQ(leads(), (IdVector<CallId, bool>{false, false, false}));
  p_.segments[SegmentId(0)].ops.back().attributes = AllGather{};
  EXPECT_EQ(leads(), (IdVector<CallId, bool>{false, false, false}));
}

TEST_F(Lead, EachQueueIsItsOwnLine) {
  p_.segments.push_back(p_.segments[SegmentId(0)]);
  p_.segments[SegmentId(1)].queue = Queue::kGroups;
  p_.schedule[CallId(1)].segment = SegmentId(1);
  p_.buffers[BufferId(2)].offset = 0;
  EXPECT_EQ(leads(), (IdVector<CallId, bool>{false, false, false}));
}

}  // namespace
}  // namespace tessera::runtime
