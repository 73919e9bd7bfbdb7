// Checks that gradient sums run over exactly the mesh axes on which their terms differ, once
// per axis, and before anything computes with them. A symbolic run keeps per buffer the set of axes
// over which it has been summed; sum_axes() gives the set that it needs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "compile/check/two_steps.h"
#include "ir/names.h"
#include "ir/program.h"
#include "ir/rule.h"
#include "ir/signature.h"
#include "ir/state/member_ranges.h"

namespace tessera::compile {
namespace {

// ---- The axes over which each gradient sum must be reduced, derived from the shardings of weights
// alone: a gradient is partial exactly on the axes on which its weight is shared. check_sums
// compares this with what the program does.

// Groups along one axis each, or the group of the stages that share a weight.
using Axes = std::set<GroupRef>;

struct SumAxes {
  IdVector<BufferKindId, Axes> needed;  // empty for kinds that are not sums
  std::set<BufferKindId> measures;      // kinds that an optimizer writes from each rank's shard
  // Axes that divide some matrices of a buffer of Muon's directions, but not all. A sum over them
  // counts the others once per rank.
  std::map<BufferKindId, Axes> uneven;
};
// Returns the axes on which the weight is shared, including the stages that share it: its gradient
// is partial there.
Axes partial_axes(const Program& p, const BufferKind& sums) {
  Axes axes;
  if (sums.like == kNone) return axes;
  const BufferKind& weights = p.kind(sums.like);
  for (const ValueId w : weights.values)
    for (const AxisKind a : Enumerators<AxisKind>())
      if (p[w].sharding.place[a] == kShared && p.mesh[a] > 1) axes.insert(GroupRef::along({a}));
  if (weights.stages.size() > 1) axes.insert(GroupRef::of_stages(weights.stages));
  return axes;
}

// Calls f(axis, all) for each axis that divides matrices of Muon. `all` is true if it divides all
// matrices of the buffer.
void each_dividing_axis(const Program& p, const Op& op, auto&& f) {
  const std::vector<ValueId>& weights = p.kind(members_of(op.attributes)).values;
  for (const AxisKind a : Enumerators<AxisKind>()) {
    const auto divided = std::count_if(weights.begin(), weights.end(), [&](ValueId w) {
      return divides_matrices(p[w], a, p.mesh);
    });
    if (divided > 0) f(GroupRef::along({a}), divided == std::ssize(weights));
  }
}

// Returns the axes over which Muon's directions of this rank's shard must be summed: those that
// divide the matrices, and those that divide the flat buffers.
Axes direction_axes(const Program& p, const Op& op) {
  Axes axes;
  each_dividing_axis(p, op, [&](const GroupRef& a, bool) { axes.insert(a); });
  const bool divided = p[op.inputs[MuonDirection::kGradient]].sharding.place[AxisKind::kShard] == 0;
  for (const AxisKind a : {AxisKind::kShard, AxisKind::kContext})
    if (divided && p.mesh[a] > 1) axes.insert(GroupRef::along({a}));
  return axes;
}

// Marks what is computed from a rank's own shard. Adafactor's measures are complete once they are
// summed over the ranks of the stage.
void mark_measures(const Program& p, SumAxes& sums) {
  Axes stage;
  for (const AxisKind a : divided_axes(p.mesh)) stage.insert(GroupRef::along({a}));
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops)
      if (rule_of(op).effects.measures_part) {
        const BufferKindId kind = p[op.outputs.back()].buffer;
        sums.measures.insert(kind);
        sums.needed[kind] = op.is<MuonDirection>() ? direction_axes(p, op) : stage;
        if (op.is<MuonDirection>())
          each_dividing_axis(p, op, [&](const GroupRef& a, bool all) {
            if (!all) sums.uneven[kind].insert(a);
          });
      }
}

Axes axes_of(const GroupRef& group) {
  if (group.kind != GroupRef::Kind::kAxes) return {group};
  Axes axes;
  for (const AxisKind a : Enumerators<AxisKind>())
    if (group.has(a)) axes.insert(GroupRef::along({a}));
  return axes;
}

std::string axes_text(const Axes& axes) {
  std::string text;
  for (const GroupRef& a : axes) text += fmt::format("{}{}", text.empty() ? "" : "+", to_string(a));
  return text;
}

// Returns the axes along which ranks have other tokens or heads of the attention whose largest
// scores the kind holds.
Axes score_axes(const Program& p, const BufferKind& scores) {
  Axes axes;
  for (const AxisKind a : Enumerators<AxisKind>())
    if (p[scores.values[0]].sharding.place[a] == kPartialMax && p.mesh[a] > 1)
      axes.insert(GroupRef::along({a}));
  return axes;
}

SumAxes sum_axes(const Program& p) {
  SumAxes sums;
  for (const BufferKind& k : p.kinds) {
    const Role role = k.values.empty() ? Role::kScratch : p[k.values[0]].role;
    sums.needed.push_back(role == Role::kGradient    ? partial_axes(p, k)
                          : role == Role::kMaxScores ? score_axes(p, k)
                                                     : Axes());
  }
  mark_measures(p, sums);
  return sums;
}

class Sums : private TwoStepRun {
 public:
  Sums(const Program& p, int rank)
      : TwoStepRun(p, rank), p_(p), sums_(sum_axes(p)), known_(p.buffers.size()) {}

  std::vector<Finding> find(const std::vector<int64_t>& order) {
    for (const int64_t x : order) run(x);
    for (const BufferId f : p_.buffers.ids())
      if (is_report(f) && p_.mesh.ranks() > 1 && known(f).over.empty())
        say(known(f).writer,
            fmt::format("the step ends with {} of one rank, which was not summed over ranks",
                        buffer(f)));
    return findings();
  }

 private:
  // The state of a buffer during the run.
  struct Known {
    Axes over;  // axes over which it was summed in this step
    int64_t writer = kNone, step = kNone;
  };

  Known& known(BufferId f) { return known_[f]; }
  Role role(BufferId f) const {
    const BufferKind& kind = p_.kind(p_.buffer(f).kind);
    return kind.values.empty() ? Role::kScratch : p_[kind.values[0]].role;
  }
  const Axes& needed(BufferId f) const { return sums_.needed[p_.buffer(f).kind]; }
  bool is_sum(BufferId f) const {
    return is_of_step(role(f)) || sums_.measures.contains(p_.buffer(f).kind);
  }
  bool is_report(BufferId f) const { return role(f) == Role::kReport; }

  void run(int64_t x) {
    const Call& c = call(x);
    const Segment& s = p_.segment(c);
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      Known& k = known(c.buffers[i]);
      if (k.step != step_of(x)) k = {{}, k.writer, step_of(x)};
      if (s.queue == Queue::kCompute) compute(x, c.buffers[i], s.buffers[i].access);
    }
    if (c.comm.kind == CommKind::kAllReduce || c.comm.kind == CommKind::kReduceScatter)
      reduce(x, c, s);
    for (size_t i = 0; i < c.buffers.size(); ++i)
      if (s.buffers[i].access != Access::kRead) known(c.buffers[i]).writer = x;
  }

  // A call that reads a sum needs the complete sum; a call that adds to it adds the terms of one
  // rank.
  void compute(int64_t x, BufferId f, Access access) {
    Known& k = known(f);
    const bool begins = sums_.measures.contains(p_.buffer(f).kind) && access == Access::kWrite;
    if (is_sum(f) && !begins && access != Access::kAdd && k.over != needed(f))
      say(x, fmt::format("{} reads {} summed over [{}], expected [{}]", name(x), buffer(f),
                         axes_text(k.over), axes_text(needed(f))));
    if (!is_report(f) || p_.mesh.ranks() == 1) return;
    if ((access == Access::kRead || access == Access::kUpdate) && k.over.empty())
      say(x, fmt::format("{} reads {} of one rank, which was not summed over ranks", name(x),
                         buffer(f)));
    if (access == Access::kAdd && !k.over.empty())
      say(x, fmt::format("{} adds to {}, the sum of all ranks", name(x), buffer(f)));
    if (access == Access::kWrite) k.over.clear();
  }

  // Reduces the first buffer that the call does not only add to, into the buffer that it writes.
  void reduce(int64_t x, const Call& c, const Segment& s) {
    BufferId from = kNone, to = kNone;
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      if (s.buffers[i].access == Access::kRead || s.buffers[i].access == Access::kUpdate)
        from = c.buffers[i];
      if (s.buffers[i].access != Access::kRead) to = c.buffers[i];
    }
    if (to == kNone) return;
    if (from == kNone) from = to;
    Axes over = axes_of(c.comm.over);
    Known &source = known(from), &target = known(to);
    if (is_report(to) && (c.comm.over != GroupRef::world() || !target.over.empty()))
      say(x, fmt::format("{} sums {} over {}, expected once over world", name(x), buffer(to),
                         to_string(c.comm.over)));
    if (is_sum(from)) check_axes(x, from, over, source.over);
    const bool needs_max = role(from) == Role::kMaxScores;
    for (const Op& op : s.ops)
      if (const AllReduce* const all = op.if_as<AllReduce>(); all && all->max != needs_max)
        say(x, fmt::format("{} reduces {} to the {}, expected the {}", name(x), buffer(from),
                           needs_max ? "sum" : "maximum", needs_max ? "maximum" : "sum"));
    over.insert(source.over.begin(), source.over.end());
    const bool joins = from != to && !target.over.empty();
    if (joins && target.over != over)
      say(x, fmt::format("{} adds a sum over [{}] to {}, a sum over [{}]", name(x), axes_text(over),
                         buffer(to), axes_text(target.over)));
    target.over = over;
  }

  void check_axes(int64_t x, BufferId f, const Axes& over, const Axes& before) {
    for (const GroupRef& a : over) {
      if (before.contains(a))
        say(x, fmt::format("{} sums {} over {} a second time", name(x), buffer(f), to_string(a)));
      if (!needed(f).contains(a))
        say(x, fmt::format("{} sums {} over {}, although all ranks there have the same value",
                           name(x), buffer(f), to_string(a)));
      const auto uneven = sums_.uneven.find(p_.buffer(f).kind);
      if (uneven != sums_.uneven.end() && uneven->second.contains(a))
        say(x, fmt::format("{} sums {} over {}, which divides only some of its matrices", name(x),
                           buffer(f), to_string(a)));
    }
  }

  const Program& p_;
  SumAxes sums_;
  IdVector<BufferId, Known> known_;
};

}  // namespace

std::vector<Finding> check_sums(const Program& p, int rank, const std::vector<int64_t>& order) {
  return Sums(p, rank).find(order);
}

}  // namespace tessera::compile
