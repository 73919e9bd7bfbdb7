// The time of each segment of a program, computed once and looked up by call.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "plan/links.h"
#include "plan/op_time.h"
#include "plan/prediction.h"

namespace tessera::plan {

// A breakdown in whole nanoseconds.
struct PartsNs : TimeBreakdown<int64_t> {
  TimeParts seconds() const;
};

struct SegmentTime {
  int64_t ns = 0;  // duration of one call
  PartsNs parts;   // they add up to ns
  Flops flops;     // per rank; recomputation is not counted in `model` and `square`
  bool head = false, again = false;
  int64_t beside_ns = 0;                     // duration of a gather that the next GEMM may hide
  bool communicates = false;                 // only communicates: a separate message or collective
  TrafficKind traffic = TrafficKind::kData;  // the kind of that communication
};

// Returns the kind of traffic in a group by its mesh axis; a group of stages is kPipeline.
TrafficKind traffic_of(const GroupRef& group);

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
  std::map<int64_t, GroupShape> pairs_;                    // by the peer stage of messages
  IdVector<SegmentId, std::array<SegmentTime, 2>> times_;  // [1]: calls that write sums
  IdVector<SegmentId, std::array<bool, 2>> known_;
};

}  // namespace tessera::plan
