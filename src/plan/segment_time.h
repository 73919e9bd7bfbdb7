// How long the segments of a program take, computed once each and looked up by call.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "plan/links.h"
#include "plan/op_time.h"
#include "plan/prediction.h"

namespace tessera::plan {

// In whole nanoseconds.
struct PartsNs : PartsOf<int64_t> {
  TimeParts seconds() const;
};

struct SegmentTime {
  int64_t ns = 0;  // of one call
  PartsNs parts;   // they add up to ns
  Flops flops;     // of one rank; none in `model` and `square` for what is done again
  bool head = false, again = false;
  int64_t beside_ns = 0;             // of a gather that the next product may hide
  bool communicates = false;         // nothing else: a message or collective of its own
  Traffic traffic = Traffic::kData;  // of that
};

// Which axis a group runs along; stages are the pipeline's.
Traffic traffic_of(const GroupRef& group);

class SegmentTimes {
 public:
  // Refers to its arguments.
  SegmentTimes(const Program& program, const Hardware& hardware, const Software& software);

  const SegmentTime& of(const Call& call);

 private:
  SegmentTime measure(const Call& call, bool fresh);
  void add_op(const Segment& s, const Op& op, const Call& call, bool fresh, SegmentTime& t);
  void add_ops_of_queues(const Segment& s, const Call& call, bool fresh, SegmentTime& t);
  double communication_s(const Op& op, const Call& call);
  double message_time(const Op& op, const Call& call);
  const GroupShape& group(const GroupRef& over);
  const GroupShape& pair_with(int64_t peer);

  const Program& program_;
  const Hardware& hardware_;
  const Software& software_;
  ValueVector local_;
  std::map<GroupRef, GroupShape> groups_;
  std::map<int64_t, GroupShape> pairs_;  // by the stage at the other end of messages
  IdVector<SegmentId, std::array<SegmentTime, 2>> times_;  // [1]: of calls that add first
  IdVector<SegmentId, std::array<bool, 2>> known_;
};

}  // namespace tessera::plan
