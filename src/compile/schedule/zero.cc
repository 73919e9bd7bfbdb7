// ZeRO (Rajbhandari et al. 2020): inserts gathers of weights and reductions of gradients into a
// schedule that was written for whole weights.
//
//   stage 1   gradients reduced after the last micro-batch; weights gathered once per step
//   stage 2   gradients reduced after each micro-batch into this rank's shard
//   stage 3   in addition, weights gathered before each use into a buffer that ends with it
//
// A gather is shared by neighboring compute calls that use the same weights (the backward of a
// layer after its recomputation, for example); any other use gets its own, so at most a few layers
// of gathered weights are alive at once.
#include "compile/schedule/schedule_passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compile/schedule/call_list.h"
#include "compile/schedule/edit_schedule.h"
#include "compile/schedule/gradient_additions.h"

namespace tessera::compile {
namespace {

class Zero {
 public:
  Zero(Program& p, const LoweredGraph& e, const ZeroPlan& plan)
      : p_(p), e_(e), plan_(plan), additions_(p, e, plan.reduces_each) {
    by_weights_.resize(p.kinds.size());
    for (const GroupId g : e.groups.ids())
      if (e.groups[g].weights != kNone) by_weights_[e.groups[g].weights] = g;
    for (const BufferId f : p.buffers.ids()) note(f);
  }

  void run() {
    IdVector<CallId, Call> calls;
    std::swap(calls, p_.schedule);
    for (const CallId c : calls.ids()) {
      before(calls[c]);
      const CallId place = p_.schedule.emplace_back();
      if (calls[c].segment == e_.clear && plan_.gather == WeightGather::kPerStep)
        gather_all(calls, c);
      after(c, calls[c]);
      p_.schedule[place] = std::move(calls[c]);
    }
    if (e_.clip == kNone) call(e_.sum_report, {}, kNone, kNone);
    drop_untouched(p_);
  }

 private:
  const WeightGroup& group(GroupId g) const { return e_.groups[g]; }
  const Buffer& buffer(BufferId f) const { return p_.buffer(f); }

  BufferId new_buffer(BufferKindId kind, int64_t layer, int64_t microbatch) {
    const BufferId made =
        p_.buffers.push_back({kind, layer, microbatch, kNone, p_.kind(kind).state});
    note(made);
    return made;
  }
  void note(BufferId f) { first_.try_emplace({buffer(f).kind, buffer(f).layer}, f); }

  // Returns the buffer of that kind for the group's calls, creating it at its first use.
  BufferId buffer_of(BufferKindId kind, int64_t layer, int64_t microbatch) {
    const auto key = std::tuple(kind, layer, microbatch);
    if (made_.contains(key)) return made_.at(key);
    const auto first = first_.find({kind, layer});
    if (first != first_.end() && !made_buffer(kind)) return made_[key] = first->second;
    return made_[key] = new_buffer(kind, layer, microbatch);
  }
  // Returns true for kinds whose buffers this pass creates, not the schedule pass.
  bool made_buffer(BufferKindId kind) const {
    return plan_.reduces_each && additions_.group_of(kind) != kNone;
  }

  // Adds a call of a group's segment, with one buffer per parameter, found by its kind.
  void call(SegmentId segment, const std::map<BufferKindId, BufferId>& given, int64_t layer,
            int64_t microbatch) {
    if (segment == kNone) return;
    Call c;
    c.segment = segment;
    c.layer = layer;
    c.microbatch = microbatch;
    for (const Parameter& parameter : p_.segment(segment).buffers)
      c.buffers.push_back(given.contains(parameter.kind) ? given.at(parameter.kind)
                                                         : buffer_of(parameter.kind, layer, kNone));
    c.comm = comm_of(p_, c);
    p_.schedule.push_back(std::move(c));
  }

  // ZeRO 1 and 2: gathers all weights of this program in the order of their first use.
  void gather_all(const IdVector<CallId, Call>& calls, CallId from) {
    std::set<BufferId> seen;
    for (auto c = calls.begin() + from.number(); c != calls.end(); ++c)
      for (const BufferId f : c->buffers) {
        const GroupId g = by_weights_[buffer(f).kind];
        if (g == kNone || !seen.insert(f).second) continue;
        call(group(g).gather, {{buffer(f).kind, f}}, buffer(f).layer, kNone);
      }
  }

  void before(Call& c) {
    if (!joined_ && is_squares(c.segment)) join();
    if (c.segment == e_.clip) call(e_.sum_report, {}, kNone, kNone);
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      const Buffer f = buffer(c.buffers[i]);
      if (plan_.reduces_each && additions_.adds(c, i))
        c.buffers[i] = buffer_of(f.kind, f.layer, c.microbatch);
      const GroupId g = by_weights_[f.kind];
      if (g != kNone && plan_.divides_weights()) c.buffers[i] = gathered(g, f);
    }
    if (p_.segment(c).queue == Queue::kCompute) latest_ = c.buffers;
  }

  // Returns the gathered weights. Neighboring calls share a gather; any other use has its own.
  BufferId gathered(GroupId g, const Buffer& f) {
    BufferId& latest = gathered_.try_emplace({g, f.layer}, kNone).first->second;
    if (latest != kNone && std::find(latest_.begin(), latest_.end(), latest) != latest_.end())
      return latest;
    latest = new_buffer(group(g).weights, f.layer, kNone);
    call(group(g).gather, {{group(g).weights, latest}}, f.layer, kNone);
    return latest;
  }

  void after(CallId n, const Call& c) {
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      if (!additions_.adds(c, i)) continue;
      const Buffer f = buffer(c.buffers[i]);
      const WeightGroup& g = group(additions_.group_of(f.kind));
      if (additions_.ends_sum(n, c, i))
        call(g.reduce, {{f.kind, c.buffers[i]}}, f.layer,
             plan_.reduces_each ? c.microbatch : int64_t{kNone});
      if (additions_.ends_step(n, c, i)) call(g.finish, {}, f.layer, kNone);
    }
  }

  bool is_squares(SegmentId s) const {
    return std::any_of(e_.groups.begin(), e_.groups.end(),
                       [&](const WeightGroup& g) { return g.squares != kNone && g.squares == s; });
  }
  // Joins in the order of the groups, on every stage that has them: a collective over several
  // stages must be issued in one order on all of them.
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
  const LoweredGraph& e_;
  const ZeroPlan& plan_;
  bool joined_ = false;
  GradientAdditions additions_;
  IdVector<BufferKindId, GroupId> by_weights_;                // the group of these weights
  std::map<std::pair<GroupId, int64_t>, BufferId> gathered_;  // per group and layer: the latest
  std::map<std::tuple<BufferKindId, int64_t, int64_t>, BufferId> made_;
  std::map<std::pair<BufferKindId, int64_t>, BufferId> first_;  // per kind and layer
  std::vector<BufferId> latest_;                                // buffers of the last compute call
};

}  // namespace

void zero(Program& program, const LoweredGraph& lowered, const ZeroPlan& plan) {
  Zero(program, lowered, plan).run();
}

}  // namespace tessera::compile
