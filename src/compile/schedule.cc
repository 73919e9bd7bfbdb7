#include "compile/schedule.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "compile/call_list.h"
#include "compile/issue_order.h"
#include "compile/stage_blocks.h"

namespace tessera {
namespace {

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

class Scheduler {
 public:
  Scheduler(Expanded& expanded, const CompileRequest& request, const Recompute& recompute,
            const Target& target, const StageShare& share)
      : e_(expanded),
        p_(e_.program),
        request_(request),
        target_(target),
        share_(share),
        own_(e_.blocks, share, request.encoded),
        calls_(p_, e_.blocks, stages() > 1) {
    light_ = own_.layers();
    const size_t light = trains() ? static_cast<size_t>(recompute.full_layers) : 0;
    light_.resize(std::min(light, light_.size()));
  }

  Program run();

 private:
  int64_t stages() const { return share_.pipeline.stages; }
  bool trains() const { return request_.purpose == Purpose::kTrain; }
  bool is_light(const Visit& v) const {
    return v.layer != kNone && std::binary_search(light_.begin(), light_.end(), v.among_all);
  }
  std::vector<int64_t> layers_using(FrameKindId kind) const;
  void state();
  void state_of(FrameKindId kind, const std::vector<int64_t>& layers);
  void add_state(FrameKindId kind, int64_t layer, int64_t microbatch);
  void pack();
  int64_t first_backward() const;
  struct Cut {  // between two chunks: what crosses, and its position in its stack
    const Messages& messages;
    int64_t position = 0;
  };
  Cut cut_at(int64_t layer) const;
  void message(const Issue& issue);
  void sent(const Action& a, SegmentId Messages::*what);
  void action(const Action& a);
  void update();
  void call(SegmentId segment, int64_t layer, int64_t microbatch) {
    calls_.add(segment, layer, microbatch, {}, 0);
  }

  Expanded& e_;
  Program& p_;
  const CompileRequest& request_;
  const Target& target_;
  const StageShare& share_;
  StageBlocks own_;
  std::vector<int64_t> light_;  // layers that save nothing, in rising order
  CallList calls_;
};

// Those of the stack whose forward reads or writes it; of all where none does.
std::vector<int64_t> Scheduler::layers_using(FrameKindId kind) const {
  const auto is_in = [&](ValueId v) { return p_[v].frame == kind; };
  for (size_t b = 0; b < e_.blocks.size(); ++b)
    for (const Op& op : e_.blocks[b].forward)
      if (std::any_of(op.inputs.begin(), op.inputs.end(), is_in) ||
          std::any_of(op.outputs.begin(), op.outputs.end(), is_in))
        return own_.layers(b);
  return own_.layers();
}

void Scheduler::add_state(FrameKindId kind, int64_t layer, int64_t microbatch) {
  const FrameId f = calls_.frame(kind, layer, microbatch);
  p_.frames[static_cast<size_t>(f)].offset = p_.state_bytes;
  p_.state_bytes = align(p_.state_bytes + p_.kind(kind).bytes, target_.alignment);
}

void Scheduler::state_of(FrameKindId kind, const std::vector<int64_t>& layers) {
  if (!(p_.kind(kind).per & kPerLayer)) return add_state(kind, kNone, kNone);
  for (const int64_t l : layers) add_state(kind, l, kNone);
}

// In the order of the kinds, logits and batches last: programs that differ in the number of tokens
// or micro-batches agree on all before them.
void Scheduler::state() {
  std::map<FrameKindId, const WeightGroup*> owner;
  for (const WeightGroup& g : e_.groups)
    for (const FrameKindId k : g.state) owner[k] = &g;
  const auto add = [&](bool logits) {
    for (size_t k = 0; k < p_.kinds.size(); ++k) {
      const auto id = static_cast<FrameKindId>(k);
      const std::string& name = p_.kinds[k].name;
      if (!p_.kinds[k].state || name == "batch" || (name == "logits") != logits) continue;
      if (!owner.contains(id))
        state_of(id, layers_using(id));
      else if (own_.holds(*owner.at(id)))
        state_of(id, own_.layers(owner.at(id)->blocks.at(0)));
    }
  };
  add(false);
  add(true);
  for (int64_t m = 0; m < request_.microbatches; ++m) add_state(calls_.named("batch"), kNone, m);
}

void Scheduler::pack() {
  for (size_t b = 0; b < e_.blocks.size(); ++b) {
    if (!own_.holds(b) || own_.is_past(b)) continue;
    if (!e_.blocks[b].is_stack())
      call(e_.segments[b].pack, kNone, kNone);
    else
      for (const int64_t l : own_.layers(b)) call(e_.segments[b].pack, l, kNone);
  }
}

// The first chunk that computes in the backward: frozen embeddings do not, and no message goes
// there.
int64_t Scheduler::first_backward() const {
  const auto computes = [&](const Visit& v) { return e_.segments[v.block].backward != kNone; };
  int64_t chunk = 0;
  for (; chunk < share_.pipeline.chunks(); ++chunk) {
    const std::vector<Visit> visits = own_.visits(chunk);
    if (std::any_of(visits.begin(), visits.end(), computes)) break;
  }
  return chunk;
}

Scheduler::Cut Scheduler::cut_at(int64_t layer) const {
  const int64_t encoder = request_.model.encoder_layers, all = request_.model.all_layers();
  Crossing crossing = Crossing::kHidden;
  if (encoder > 0 && layer < all)
    crossing = layer <= encoder ? Crossing::kSource : Crossing::kMemory;
  return {e_.messages[static_cast<size_t>(crossing)],
          crossing == Crossing::kSource ? layer : layer - encoder};
}

// Of what a chunk sent on: its share is kept, or let go.
void Scheduler::sent(const Action& a, SegmentId Messages::*what) {
  if (!trains() || stages() == 1 || own_.is_last(a.chunk)) return;
  const Cut cut = cut_at(own_.end_layer(a.chunk));
  calls_.add(cut.messages.*what, cut.position, a.microbatch, {cut.position, cut.position}, a.chunk);
}

void Scheduler::message(const Issue& issue) {
  const int64_t m = issue.action.microbatch, from = issue.action.chunk;
  // A forward message carries what comes after the producer's layers, a backward one what comes
  // before them.
  const int64_t layer = issue.backward ? own_.first_layer(from) : own_.end_layer(from);
  const int64_t chunk = !issue.receives ? from : (issue.backward ? from - 1 : from + 1);
  const auto& [s, position] = cut_at(layer);
  const SegmentId segment = issue.backward ? (issue.receives ? s.receive_backward : s.send_backward)
                                           : (issue.receives ? s.receive_forward : s.send_forward);
  calls_.add(segment, position, m, {position, position}, chunk);
  const int64_t step = (issue.backward == issue.receives) ? 1 : stages() - 1;
  p_.schedule.back().wire.over = fmt::format("stage:{}", (share_.stage + step) % stages());
}

// The head's forward, loss and backward are one segment, which begins the backward.
void Scheduler::action(const Action& a) {
  std::vector<Visit> visits = own_.visits(a.chunk);
  if (a.kind != ActionKind::kForward) std::reverse(visits.begin(), visits.end());
  for (const Visit& v : visits) {
    const BlockSegments& s = e_.segments[v.block];
    const auto add = [&](SegmentId segment) {
      calls_.add(segment, v.layer, a.microbatch, v.at, a.chunk);
    };
    switch (a.kind) {
      case ActionKind::kForward:
        add(is_light(v) ? s.light : s.forward);
        break;
      case ActionKind::kBackward:
        if (is_light(v)) add(s.again);
        add(s.backward);
        break;
      case ActionKind::kWeights:
        add(s.weights);
        break;
    }
  }
  if (a.kind == ActionKind::kForward) sent(a, &Messages::keep_sent);
  if (a.kind == ActionKind::kBackward) sent(a, &Messages::release_sent);
}

void Scheduler::update() {
  const auto each = [&](SegmentId WeightGroup::*member) {
    for (const WeightGroup& g : e_.groups) {
      if (g.per_layer) {
        for (const int64_t l : own_.layers(g.blocks.at(0))) call(g.*member, l, kNone);
      } else if (own_.holds(g)) {
        call(g.*member, kNone, kNone);
      }
    }
  };
  each(&WeightGroup::squares);
  call(e_.clip, kNone, kNone);
  for (const auto member : {&WeightGroup::measure, &WeightGroup::sum_measure, &WeightGroup::factor,
                            &WeightGroup::sum_factor, &WeightGroup::update})
    each(member);
}

Program Scheduler::run() {
  p_.stage = share_.stage;
  state();
  call(e_.clear, kNone, kNone);
  pack();
  for (const Issue& issue : issue_order(share_, first_backward())) {
    if (issue.is_message)
      message(issue);
    else
      action(issue.action);
  }
  if (trains()) update();
  return std::move(e_.program);
}

}  // namespace

Program schedule(Expanded& expanded, const CompileRequest& request, const Recompute& recompute,
                 const Target& target, const StageShare& share) {
  return Scheduler(expanded, request, recompute, target, share).run();
}

}  // namespace tessera
