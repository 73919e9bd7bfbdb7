// Writes the calls of one stage: state and packing, then the pipeline's actions and messages in
// issue order, then the update. An action expands to the calls of its chunk's blocks: forwards in
// order, backwards in reverse.
#include "compile/schedule/schedule_passes.h"

#include <algorithm>

#include "compile/schedule/call_list.h"
#include "compile/schedule/issue_order.h"
#include "compile/schedule/stage_blocks.h"

namespace tessera::compile {
namespace {

class Scheduler {
 public:
  Scheduler(LoweredGraph& lowered, const Context& context, const StageLayers& share)
      : e_(lowered),
        p_(e_.program),
        context_(context),
        share_(share),
        own_(e_.blocks, share, context.request.reuse_encoder_output),
        calls_(e_, share.pipeline.stages > 1),
        messages_(e_, share, own_, calls_) {
    saving_nothing_ = own_.layers();
    const size_t layers = trains() ? context.recompute.full_layers : 0;
    saving_nothing_.resize(std::min(layers, saving_nothing_.size()));
  }

  Program run();

 private:
  bool trains() const { return context_.trains(); }
  bool saves_nothing(const ChunkBlock& v) const {
    return v.layer != kNone &&
           std::binary_search(saving_nothing_.begin(), saving_nothing_.end(), v.before);
  }
  struct Updated {
    const WeightGroup* group;
    int64_t layer;
  };
  std::vector<Updated> update_order() const;
  void pack();
  void action(const Action& a);
  void max_scores();
  void update();
  void call(SegmentId segment, int64_t layer, int64_t microbatch) {
    calls_.add(segment, layer, microbatch, {}, 0);
  }

  LoweredGraph& e_;
  Program& p_;
  const Context& context_;
  const StageLayers& share_;
  StageBlocks own_;
  std::vector<int64_t> saving_nothing_;  // layers, in ascending order
  CallList calls_;
  StageMessages messages_;
};

void Scheduler::pack() {
  for (const BlockId b : e_.blocks.ids()) {
    if (!own_.holds(b) || own_.is_past(b)) continue;
    if (!e_.blocks[b].is_stack())
      call(e_.segments[b].pack, kNone, kNone);
    else
      for (const int64_t l : own_.layers(b)) call(e_.segments[b].pack, l, kNone);
  }
}

// Adds the calls of an action. The head's forward, loss and backward are one segment, issued with
// the backward.
void Scheduler::action(const Action& a) {
  std::vector<ChunkBlock> visits = own_.visits(a.chunk);
  if (a.kind != ActionKind::kForward) std::reverse(visits.begin(), visits.end());
  for (const ChunkBlock& v : visits) {
    const BlockSegments& s = e_.segments[v.block];
    const auto add = [&](SegmentId segment) {
      calls_.add(segment, v.layer, a.microbatch, v.at, a.chunk);
    };
    switch (a.kind) {
      case ActionKind::kForward:
        add(saves_nothing(v) ? s.forward_no_save : s.forward);
        break;
      case ActionKind::kBackward:
        if (saves_nothing(v)) add(s.recompute);
        add(s.backward);
        break;
      case ActionKind::kWeights:
        add(s.weight_backward);
        break;
    }
  }
  if (!trains()) return;
  if (a.kind == ActionKind::kForward) messages_.sent(a, &BoundarySegments::keep_sent);
  if (a.kind == ActionKind::kBackward) messages_.sent(a, &BoundarySegments::release_sent);
}

// Returns the order of updates, group by group. Groups of the stacks of one stream that differ only
// in their block are merged layer by layer, so that sums do not depend on how the layers of a model
// are divided into blocks.
std::vector<Scheduler::Updated> Scheduler::update_order() const {
  std::vector<Updated> order;
  IdVector<GroupId, bool> done(e_.groups.size(), false);
  const auto stream = [&](const WeightGroup& g) { return e_.blocks[g.blocks.at(0)].from; };
  for (const GroupId first : e_.groups.ids()) {
    const WeightGroup& g = e_.groups[first];
    if (!g.per_layer && own_.holds(g)) order.push_back({&g, kNone});
    if (!g.per_layer || done[first]) continue;
    const auto begin = std::ssize(order);
    for (const GroupId id : e_.groups.ids()) {
      const WeightGroup& other = e_.groups[id];
      if (!other.per_layer || done[id] || stream(other) != stream(g) || !are_alike(other, g))
        continue;
      done[id] = true;
      for (const int64_t l : own_.layers(other.blocks.at(0))) order.push_back({&other, l});
    }
    std::sort(order.begin() + begin, order.end(),
              [](const Updated& a, const Updated& b) { return a.layer < b.layer; });
  }
  return order;
}

// Adds the calls that complete the attention scores of this stage's layers.
void Scheduler::max_scores() {
  for (const BlockId b : e_.blocks.ids()) {
    if (!own_.holds(b)) continue;
    const SegmentId max = e_.segments[b].max_scores;
    if (!e_.blocks[b].is_stack())
      call(max, kNone, kNone);
    else
      for (const int64_t l : own_.layers(b)) call(max, l, kNone);
  }
}

// Adds the update calls. The squares of all groups come before the clip, which needs the whole
// norm; updates need the clip's scale. Adafactor's measures and factors come between. Muon's calls
// go layer by layer, since the directions of a layer are as large as its weights: those of one more
// layer are sent while one is updated.
void Scheduler::update() {
  std::vector<Updated> order = update_order();
  const auto add = [&](const Updated& u, SegmentId WeightGroup::*member) {
    call(u.group->*member, u.layer, kNone);
  };
  const auto each = [&](SegmentId WeightGroup::*member) {
    for (const Updated& u : order) add(u, member);
  };
  max_scores();
  each(&WeightGroup::squares);
  call(e_.clip, kNone, kNone);
  std::vector<Updated> matrices;
  for (const Updated& u : order)
    if (u.group->directions != kNone) matrices.push_back(u);
  std::erase_if(order, [](const Updated& u) { return u.group->directions != kNone; });
  for (size_t i = 0, next = 0; i < matrices.size(); ++i) {
    const auto ahead = [&] { return matrices[next].group->sum_direction == kNone ? 0 : 1; };
    for (; next < matrices.size() && next <= i + ahead(); ++next) {
      add(matrices[next], &WeightGroup::direction);
      add(matrices[next], &WeightGroup::sum_direction);
    }
    add(matrices[i], &WeightGroup::orthogonalize);
    add(matrices[i], &WeightGroup::update);
  }
  for (const auto member : {&WeightGroup::measure, &WeightGroup::sum_measure, &WeightGroup::factor,
                            &WeightGroup::sum_factor, &WeightGroup::update})
    each(member);
}

Program Scheduler::run() {
  p_.stage = share_.stage;
  add_state(e_, own_, context_.request.microbatches, context_.target.alignment, calls_);
  call(e_.clear, kNone, kNone);
  pack();
  for (const Issue& issue : issue_order(share_, messages_.first_backward())) {
    if (issue.is_message)
      messages_.issue(issue);
    else
      action(issue.action);
  }
  if (trains()) update();
  return std::move(e_.program);
}

}  // namespace

Program schedule(LoweredGraph& lowered, const Context& context, const StageLayers& share) {
  return Scheduler(lowered, context, share).run();
}

}  // namespace tessera::compile
