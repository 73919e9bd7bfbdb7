// What communication means for weights, gradients and the report: which part of a frame is new, and
// over which axes a sum is complete.
#include <set>

#include "base/error.h"
#include "compile/check_parts.h"
#include "compile/sum_axes.h"
#include "ir/names.h"

namespace tessera {
namespace {

// What a segment does to one of its parameters, beyond its access.
struct Part {
  bool reads_whole = false;  // more than this rank's own part
  bool writes_own = false;   // nothing but that part
};

Part part_of(const Program& p, const Segment& s, FrameKindId kind) {
  bool writes = false, writes_whole = false;
  Part part;
  for (const Op& op : s.ops) {
    for (const ValueId v : op.inputs)
      if (p[v].frame == kind && !p[v].own) part.reads_whole = true;
    for (const ValueId v : op.outputs)
      if (p[v].frame == kind) (p[v].own ? writes : writes_whole) = true;
  }
  part.writes_own = writes && !writes_whole;
  return part;
}

// What is known of a frame during the run.
struct Known {
  bool own_only = false;  // beyond this rank's part it is old
  Axes over;              // that it is summed over in this step
  int64_t writer = kNone, step = kNone;
};

class Meaning {
 public:
  Meaning(const Program& p, int rank)
      : p_(p), rank_(rank), sums_(sum_axes(p)), known_(p.frames.size()) {
    for (const Segment& s : p.segments) {
      parts_.emplace_back();
      for (const Parameter& x : s.frames) parts_.back().push_back(part_of(p, s, x.kind));
    }
    for (const FrameKind& k : p.kinds)
      roles_.push_back(k.values.empty() ? Role::kScratch : p[k.values[0]].role);
    begin_old();
  }

  std::vector<Finding> find(const std::vector<int64_t>& order) {
    for (const int64_t x : order) run(x);
    for (size_t f = 0; f < p_.frames.size(); ++f)
      if (is_report(static_cast<FrameId>(f)) && p_.mesh.ranks() > 1 && known_[f].over.empty())
        say(known_[f].writer,
            fmt::format("the step ends with {} of one rank alone", name(static_cast<FrameId>(f))));
    return std::move(findings_);
  }

 private:
  int64_t length() const { return static_cast<int64_t>(p_.schedule.size()); }
  std::string name(FrameId f) const { return frame_name(p_, f); }
  std::string call(int64_t x) const {
    return "call " + call_name(p_, static_cast<CallId>(x % length()));
  }
  Role role(FrameId f) const { return roles_[static_cast<size_t>(p_.frame(f).kind)]; }
  const Axes& needed(FrameId f) const {
    return sums_.needed[static_cast<size_t>(p_.frame(f).kind)];
  }
  bool is_sum(FrameId f) const {
    return role(f) == Role::kGradient || sums_.measures.contains(p_.frame(f).kind);
  }
  bool is_report(FrameId f) const {
    return role(f) == Role::kReport && p_.kind(p_.frame(f).kind).name == "report";
  }
  void say(int64_t x, const std::string& text) {
    if (!said_.insert(text).second) return;
    findings_.push_back(
        {"value", text, rank_, x == kNone ? kNone : static_cast<CallId>(x % length())});
  }

  // The program that ran before may have updated the own part alone of what is gathered here.
  void begin_old() {
    std::set<FrameKindId> gathered;
    for (size_t s = 0; s < p_.segments.size(); ++s)
      for (size_t i = 0; i < parts_[s].size(); ++i) {
        const Parameter& x = p_.segments[s].frames[i];
        const bool in_place = x.access == Access::kUpdate || x.access == Access::kWrite;
        const bool gathers = in_place && !parts_[s][i].reads_whole && !parts_[s][i].writes_own &&
                             p_.segments[s].queue != Queue::kCompute;
        if (gathers || parts_[s][i].writes_own) gathered.insert(x.kind);
      }
    for (size_t f = 0; f < p_.frames.size(); ++f)
      known_[f].own_only = p_.frames[f].state &&
                           roles_[static_cast<size_t>(p_.frames[f].kind)] == Role::kWeight &&
                           gathered.contains(p_.frames[f].kind);
  }

  void run(int64_t x) {
    const Call& c = p_.call(static_cast<CallId>(x % length()));
    const Segment& s = p_.segment(c);
    const std::vector<Part>& parts = parts_[static_cast<size_t>(c.segment)];
    for (size_t i = 0; i < c.frames.size(); ++i) {
      enter_step(x, c.frames[i]);
      Known& k = known_[static_cast<size_t>(c.frames[i])];
      if (parts[i].reads_whole && k.own_only)
        say(x, fmt::format("{} reads {}, of which only the own part is new{}", call(x),
                           name(c.frames[i]), k.writer == kNone ? "" : " since " + call(k.writer)));
      if (s.queue == Queue::kCompute) compute(x, c.frames[i], s.frames[i].access);
    }
    if (c.wire.operation == "all_reduce" || c.wire.operation == "reduce_scatter") reduce(x, c, s);
    for (size_t i = 0; i < c.frames.size(); ++i) {
      if (s.frames[i].access == Access::kRead) continue;
      Known& k = known_[static_cast<size_t>(c.frames[i])];
      k.own_only = parts[i].writes_own;
      k.writer = x;
    }
  }

  void enter_step(int64_t x, FrameId f) {
    Known& k = known_[static_cast<size_t>(f)];
    if (k.step == x / length()) return;
    k.step = x / length();
    k.over.clear();
    if (!p_.frame(f).state) k.own_only = false;
  }

  // Who computes with a sum means all of it; who adds to it means what is of one rank.
  void compute(int64_t x, FrameId f, Access access) {
    Known& k = known_[static_cast<size_t>(f)];
    const bool begins = sums_.measures.contains(p_.frame(f).kind) && access == Access::kWrite;
    if (is_sum(f) && !begins && access != Access::kAdd && k.over != needed(f))
      say(x, fmt::format("{} reads {} summed over [{}], wanted [{}]", call(x), name(f),
                         axes_text(k.over), axes_text(needed(f))));
    if (!is_report(f) || p_.mesh.ranks() == 1) return;
    if ((access == Access::kRead || access == Access::kUpdate) && k.over.empty())
      say(x, fmt::format("{} reads {} of one rank alone", call(x), name(f)));
    if (access == Access::kAdd && !k.over.empty())
      say(x, fmt::format("{} adds to {}, the sum of all ranks", call(x), name(f)));
    if (access == Access::kWrite) k.over.clear();
  }

  // From the first frame that is not added to into the one that is written.
  void reduce(int64_t x, const Call& c, const Segment& s) {
    FrameId from = kNone, to = kNone;
    for (size_t i = 0; i < c.frames.size(); ++i) {
      if (s.frames[i].access == Access::kRead || s.frames[i].access == Access::kUpdate)
        from = c.frames[i];
      if (s.frames[i].access != Access::kRead) to = c.frames[i];
    }
    if (to == kNone) return;
    if (from == kNone) from = to;
    Axes over = axes_named(c.wire.over);
    Known &source = known_[static_cast<size_t>(from)], &target = known_[static_cast<size_t>(to)];
    if (is_report(to) && (c.wire.over != "world" || !target.over.empty()))
      say(x, fmt::format("{} sums {} over {}, wanted once over world", call(x), name(to),
                         c.wire.over));
    if (is_sum(from)) check_axes(x, from, over, source.over);
    over.insert(source.over.begin(), source.over.end());
    const bool joins = from != to && !target.over.empty();
    if (joins && target.over != over)
      say(x, fmt::format("{} adds a sum over [{}] to {}, a sum over [{}]", call(x), axes_text(over),
                         name(to), axes_text(target.over)));
    target.over = over;
  }

  void check_axes(int64_t x, FrameId f, const Axes& over, const Axes& before) {
    for (const std::string& a : over) {
      if (before.contains(a))
        say(x, fmt::format("{} sums {} over {} a second time", call(x), name(f), a));
      if (!needed(f).contains(a))
        say(x,
            fmt::format("{} sums {} over {}, where its terms are the same", call(x), name(f), a));
    }
  }

  const Program& p_;
  int rank_;
  SumAxes sums_;
  std::vector<std::vector<Part>> parts_;  // of each parameter of each segment
  std::vector<Role> roles_;               // of each kind
  std::vector<Known> known_;              // of each frame
  std::set<std::string> said_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_meaning(const Program& p, int rank, const std::vector<int64_t>& order) {
  return Meaning(p, rank).find(order);
}

}  // namespace tessera
