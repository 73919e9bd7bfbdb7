#include "compile/zero.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compile/call_list.h"
#include "compile/gradient_additions.h"
#include "compile/schedule.h"

namespace tessera {
namespace {

class Zero {
 public:
  Zero(Program& p, const Expanded& e, bool each)
      : p_(p), e_(e), each_(each), additions_(p, e, each) {
    by_weights_.assign(p.kinds.size(), kNoGroup);
    for (size_t g = 0; g < e.groups.size(); ++g)
      if (e.groups[g].weights != kNone) by_weights_[static_cast<size_t>(e.groups[g].weights)] = g;
    for (size_t f = 0; f < p.frames.size(); ++f) note(static_cast<FrameId>(f));
  }

  void run() {
    std::vector<Call> calls;
    calls.swap(p_.schedule);
    for (size_t c = 0; c < calls.size(); ++c) {
      before(calls[c]);
      const size_t place = p_.schedule.size();
      p_.schedule.emplace_back();
      if (calls[c].segment == e_.clear) gather_all(calls, c);
      after(c, calls[c]);
      p_.schedule[place] = std::move(calls[c]);
    }
    if (e_.clip == kNone) call(e_.sum_report, {}, kNone, kNone);
    drop_untouched(p_);
  }

 private:
  const WeightGroup& group(size_t g) const { return e_.groups[g]; }
  bool gathers_each(size_t g) const { return group(g).weights_shard != kNone; }
  const Frame& frame(FrameId f) const { return p_.frame(f); }

  FrameId new_frame(FrameKindId kind, int64_t layer, int64_t microbatch) {
    p_.frames.push_back({kind, layer, microbatch, kNone, p_.kind(kind).state});
    const auto made = static_cast<FrameId>(p_.frames.size() - 1);
    note(made);
    return made;
  }
  void note(FrameId f) { first_.try_emplace({frame(f).kind, frame(f).layer}, f); }

  // The frame of that kind for the group's calls: made at its first use.
  FrameId frame_of(FrameKindId kind, int64_t layer, int64_t microbatch) {
    const auto key = std::tuple(kind, layer, microbatch);
    if (made_.contains(key)) return made_.at(key);
    const auto first = first_.find({kind, layer});
    if (first != first_.end() && !made_frame(kind)) return made_[key] = first->second;
    return made_[key] = new_frame(kind, layer, microbatch);
  }
  // Kinds whose frames this pass makes anew.
  bool made_frame(FrameKindId kind) const { return each_ && additions_.group_of(kind) != kNoGroup; }

  // A call of a group's segment: one frame for each parameter, by its kind.
  void call(SegmentId segment, const std::map<FrameKindId, FrameId>& given, int64_t layer,
            int64_t microbatch) {
    if (segment == kNone) return;
    Call c;
    c.segment = segment;
    c.layer = layer;
    c.microbatch = microbatch;
    for (const Parameter& parameter : p_.segment(segment).frames)
      c.frames.push_back(given.contains(parameter.kind) ? given.at(parameter.kind)
                                                        : frame_of(parameter.kind, layer, kNone));
    c.wire = wire_of(p_, c);
    p_.schedule.push_back(std::move(c));
  }

  // Stages 1 and 2: all weights of this program, in the order of their first use.
  void gather_all(const std::vector<Call>& calls, size_t from) {
    std::set<FrameId> seen;
    for (size_t c = from; c < calls.size(); ++c)
      for (const FrameId f : calls[c].frames) {
        const size_t g = by_weights_[static_cast<size_t>(frame(f).kind)];
        if (g == kNoGroup || gathers_each(g) || !seen.insert(f).second) continue;
        call(group(g).gather, {{frame(f).kind, f}}, frame(f).layer, kNone);
      }
  }

  void before(Call& c) {
    if (!joined_ && is_squares(c.segment)) join();
    if (c.segment == e_.clip) call(e_.sum_report, {}, kNone, kNone);
    for (size_t i = 0; i < c.frames.size(); ++i) {
      const Frame f = frame(c.frames[i]);
      if (each_ && additions_.adds(c, i)) c.frames[i] = frame_of(f.kind, f.layer, c.microbatch);
      const size_t g = by_weights_[static_cast<size_t>(f.kind)];
      if (g != kNoGroup && gathers_each(g)) c.frames[i] = gathered(g, f);
    }
    if (p_.segment(c).queue == Queue::kCompute) latest_ = c.frames;
  }

  // Neighbouring calls share a gather; any other use has its own.
  FrameId gathered(size_t g, const Frame& f) {
    FrameId& latest = gathered_.try_emplace({g, f.layer}, kNone).first->second;
    if (latest != kNone && std::find(latest_.begin(), latest_.end(), latest) != latest_.end())
      return latest;
    latest = new_frame(group(g).weights, f.layer, kNone);
    call(group(g).gather, {{group(g).weights, latest}}, f.layer, kNone);
    return latest;
  }

  void after(size_t n, const Call& c) {
    for (size_t i = 0; i < c.frames.size(); ++i) {
      if (!additions_.adds(c, i)) continue;
      const Frame f = frame(c.frames[i]);
      const WeightGroup& g = group(additions_.group_of(f.kind));
      if (additions_.ends_sum(n, c, i))
        call(g.reduce, {{f.kind, c.frames[i]}}, f.layer, each_ ? c.microbatch : kNone);
      if (additions_.ends_step(n, c, i)) call(g.finish, {}, f.layer, kNone);
    }
  }

  bool is_squares(SegmentId s) const {
    return std::any_of(e_.groups.begin(), e_.groups.end(),
                       [&](const WeightGroup& g) { return g.squares != kNone && g.squares == s; });
  }
  // In the order of the groups, on every stage that has them.
  void join() {
    joined_ = true;
    for (const WeightGroup& g : e_.groups) {
      if (g.join == kNone) continue;
      const auto& stages = p_.kind(g.weights).stages;
      if (std::find(stages.begin(), stages.end(), p_.stage) != stages.end())
        call(g.join, {}, kNone, kNone);
    }
  }

  Program& p_;
  const Expanded& e_;
  bool each_;
  bool joined_ = false;
  GradientAdditions additions_;
  std::vector<size_t> by_weights_;                          // of each kind: its group
  std::map<std::pair<size_t, int64_t>, FrameId> gathered_;  // of a group and layer: the latest
  std::map<std::tuple<FrameKindId, int64_t, int64_t>, FrameId> made_;
  std::map<std::pair<FrameKindId, int64_t>, FrameId> first_;  // of a kind and layer
  std::vector<FrameId> latest_;                               // frames of the last compute call
};

}  // namespace

void zero(Program& program, const Expanded& expanded, bool each) {
  Zero(program, expanded, each).run();
}

}  // namespace tessera
