// Checks that weights of which only this rank's shard was updated are gathered before they are read
// in full. A symbolic run keeps one flag per buffer: true if everything outside this rank's shard
// is out of date.
#include <set>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "compile/check/two_steps.h"

namespace tessera::compile {
namespace {

// How a segment uses one of its parameters, in addition to its access.
struct Part {
  bool reads_whole = false;  // reads more than this rank's shard
  bool writes_own = false;   // writes only that shard
};

Part part_of(const Program& p, const Segment& s, BufferKindId kind) {
  bool writes = false, writes_whole = false;
  Part part;
  for (const Op& op : s.ops) {
    for (const ValueId v : op.inputs)
      if (p[v].buffer == kind && !p[v].is_local_shard) part.reads_whole = true;
    for (const ValueId v : op.outputs)
      if (p[v].buffer == kind) (p[v].is_local_shard ? writes : writes_whole) = true;
  }
  part.writes_own = writes && !writes_whole;
  return part;
}

class ShardFreshnessCheck : private TwoStepRun {
 public:
  ShardFreshnessCheck(const Program& p, int rank)
      : TwoStepRun(p, rank), p_(p), known_(p.buffers.size()) {
    for (const Segment& s : p.segments) {
      parts_.emplace_back();
      for (const Parameter& x : s.buffers) parts_.back().push_back(part_of(p, s, x.kind));
    }
    begin_old();
  }

  std::vector<Finding> find(const std::vector<int64_t>& order) {
    for (const int64_t x : order) run(x);
    return findings();
  }

 private:
  // The state of a buffer during the run.
  struct Known {
    bool own_only = false;  // only this rank's shard is up to date
    int64_t writer = kNone, step = kNone;
  };

  bool holds_weights(BufferKindId kind) const {
    const std::vector<ValueId>& values = p_.kind(kind).values;
    return !values.empty() && p_[values[0]].role == Role::kWeight;
  }

  // The previous program may have updated only this rank's shard of the weights that are gathered
  // here.
  void begin_old() {
    std::set<BufferKindId> gathered;
    for (const SegmentId s : p_.segments.ids())
      for (size_t i = 0; i < parts_[s].size(); ++i) {
        const Parameter& x = p_.segments[s].buffers[i];
        const bool in_place = x.access == Access::kUpdate || x.access == Access::kWrite;
        const bool gathers = in_place && !parts_[s][i].reads_whole && !parts_[s][i].writes_own &&
                             p_.segments[s].queue != Queue::kCompute;
        if (gathers || parts_[s][i].writes_own) gathered.insert(x.kind);
      }
    for (const BufferId f : p_.buffers.ids())
      known_[f].own_only = p_.buffers[f].state && holds_weights(p_.buffers[f].kind) &&
                           gathered.contains(p_.buffers[f].kind);
  }

  void run(int64_t x) {
    const Call& c = call(x);
    const Segment& s = p_.segment(c);
    const std::vector<Part>& parts = parts_[c.segment];
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      Known& k = known_[c.buffers[i]];
      if (k.step != step_of(x) && !p_.buffer(c.buffers[i]).state) k.own_only = false;
      k.step = step_of(x);
      if (parts[i].reads_whole && k.own_only)
        say(x,
            fmt::format("{} reads {}, of which only this rank's shard is up to date{}", name(x),
                        buffer(c.buffers[i]), k.writer == kNone ? "" : " since " + name(k.writer)));
      if (s.buffers[i].access == Access::kRead) continue;
      k.own_only = parts[i].writes_own;
      k.writer = x;
    }
  }

  const Program& p_;
  IdVector<SegmentId, std::vector<Part>> parts_;  // per segment and parameter
  IdVector<BufferId, Known> known_;
};

}  // namespace

std::vector<Finding> check_own(const Program& p, int rank, const std::vector<int64_t>& order) {
  return ShardFreshnessCheck(p, rank).find(order);
}

}  // namespace tessera::compile
