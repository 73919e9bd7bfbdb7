// Finds the calls whose transfer may start while the transfer of the previous call of their queue
// is still in progress: their own transfer must be their last op, and the two calls must share no
// bytes that one of them writes.
#include "runtime/early_start.h"

#include <algorithm>
#include <array>

#include "ir/chunk.h"
#include "ir/rule.h"

namespace tessera::runtime {
namespace {

bool ends_with_its_only_transfer(const Segment& s) {
  return !s.ops.empty() && communicates(s.ops.back()) &&
         std::count_if(s.ops.begin(), s.ops.end(), communicates) == 1;
}

struct AccessedBytes {
  int64_t begin = 0, end = 0;
  bool written = true;
};

// Returns the bytes of the arena that a call uses: its buffers, and its part of the queue's
// scratch.
std::vector<AccessedBytes> touched(const Program& p, const Call& c) {
  const Segment& s = p.segment(c);
  const int64_t scratch = scratch_offset(p, s.queue);
  std::vector<AccessedBytes> all = {{scratch, scratch + s.scratch_bytes}};
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    const int64_t begin = p.buffer(c.buffers[i]).offset;
    all.push_back({begin, begin + p.bytes_of(c.buffers[i]), s.buffers[i].access != Access::kRead});
  }
  return all;
}

bool conflict(const Program& p, const Call& a, const Call& b) {
  const std::vector<AccessedBytes> of_b = touched(p, b);
  for (const AccessedBytes& x : touched(p, a))
    for (const AccessedBytes& y : of_b)
      if ((x.written || y.written) && std::max(x.begin, y.begin) < std::min(x.end, y.end))
        return true;
  return false;
}

}  // namespace

IdVector<CallId, bool> calls_that_may_start_early(const Program& program) {
  IdVector<CallId, bool> leads;
  std::array<const Call*, kQueues> before{};
  for (const Call& c : program.schedule) {
    const Segment& s = program.segment(c);
    const Call*& last = before[static_cast<size_t>(s.queue)];
    leads.push_back(s.queue != Queue::kCompute && last != nullptr &&
                    ends_with_its_only_transfer(s) && !conflict(program, *last, c));
    last = &c;
  }
  return leads;
}

std::vector<bool> ops_that_may_start_early(const Program& program, const Segment& segment) {
  std::vector<bool> leads;
  std::array<const Op*, kQueues> before{};
  for (const Op& op : segment.ops) {
    const Op*& last = before[static_cast<size_t>(op.queue)];
    bool may = is_inner(op.queue) && last != nullptr && communicates(*last) && communicates(op);
    if (may)
      for (const TouchedBytes& a : touched_bytes(*last, program.values))
        for (const TouchedBytes& b : touched_bytes(op, program.values)) may &= !in_conflict(a, b);
    leads.push_back(may);
    last = &op;
  }
  return leads;
}

EarlyStarts::EarlyStarts(const Program& program) : calls(calls_that_may_start_early(program)) {
  for (const Segment& s : program.segments) ops.push_back(ops_that_may_start_early(program, s));
}

}  // namespace tessera::runtime
