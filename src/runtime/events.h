// What a run tells those who watch it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/program.h"
#include "runtime/bound_op.h"

namespace tessera {

class Executor;

// An op that has just run, for tracing and for the search of bad numbers.
struct OpEvent {
  const Call& call;
  const Segment& segment;
  const BoundOp& op;
  double start_s;  // on the executor's clock; of a transfer, when it was started
  const Executor& executor;

  // An operand where the host can read it, until the next call.
  TensorView host(const TensorView& operand) const;
  // The number of its first element that is not finite, looked for where it lies; -1: there is
  // none. Of f32, bf16 and f16.
  int64_t first_non_finite(const TensorView& operand) const;
};

// An op of the compute queue that begins, or one of any queue for which this rank has waited for
// long.
struct OpStart {
  const Call& call;
  const Segment& segment;
  const Op& op;
  bool waits;  // for other ranks: it communicates
};

// Of one run, in seconds of the clock the executor was given.
struct CommunicationTime {
  double total_s = 0;                      // of all transfers, from start to end
  double exposed_s = 0;                    // the compute queue stood still
  std::map<GroupRef, double> exposed_by;   // of these, by the group waited for
  std::map<GroupRef, int64_t> bytes_sent;  // by this rank, to each group
};

// What the thread of a run waits for, told once the wait is no longer short.
struct Waiting {
  CallId call = kNone;           // whose transfer is under way; kNone: no long wait
  std::string op;                // its origin
  std::vector<int64_t> group;    // ranks that take part
  std::vector<int64_t> missing;  // of these, whose messages have not come or not left
  double since_s = 0;
};

}  // namespace tessera
