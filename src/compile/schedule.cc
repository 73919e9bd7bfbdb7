#include "compile/schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "compile/call_list.h"

namespace tessera {
namespace {

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// A message or an action in the one order of all stages.
struct Item {
  int64_t time = 0;
  bool is_action = false;
  bool backward = false;  // of messages: its direction
  Action action;          // of messages: the producer's
  bool receives = false;

  auto key() const {
    return std::tuple(time, is_action, backward, action.chunk, action.microbatch);
  }
};

class Scheduler {
 public:
  Scheduler(Expanded& expanded, const CompileRequest& request, const Recompute& recompute,
            const Target& target, const StageShare& share)
      : e_(expanded),
        p_(e_.program),
        request_(request),
        recompute_(recompute),
        target_(target),
        share_(share),
        ranges_(block_ranges(e_.blocks)),
        first_{0},
        calls_(p_, e_.blocks, stages() > 1) {
    for (const int64_t n : share_.layers) first_.push_back(first_.back() + n);
    mark_light();
  }

  Program run();

 private:
  int64_t stages() const { return share_.pipeline.stages; }
  bool trains() const { return request_.purpose == Purpose::kTrain; }
  bool last_chunk(int64_t c) const { return c + 1 == share_.pipeline.chunks(); }
  int64_t first_layer(int64_t c) const { return first_[static_cast<size_t>(c)]; }
  int64_t end_layer(int64_t c) const { return first_layer(c + 1); }
  bool holds(size_t block) const { return share_.holds(e_.blocks[block], ranges_[block]); }
  bool holds(const WeightGroup& group) const;
  std::vector<int64_t> own_layers() const;
  std::vector<int64_t> own_layers(size_t block) const;
  std::vector<int64_t> layers_using(FrameKindId kind) const;
  bool is_past(size_t block) const { return request_.encoded && e_.blocks[block].to == "source"; }
  bool is_light(int64_t layer) const { return light_[static_cast<size_t>(layer)]; }
  void mark_light();
  void state();
  void state_of(FrameKindId kind, const std::vector<int64_t>& layers);
  void add_state(FrameKindId kind, int64_t layer, int64_t microbatch);
  int64_t first_backward() const;
  std::vector<Item> items() const;
  struct Cut {  // between two chunks: what crosses, and its position in its stack
    const Messages& messages;
    int64_t position = 0;
  };
  Cut cut_at(int64_t layer) const;
  void message(const Item& item);
  void sent(const Action& a, SegmentId Messages::*what);
  void forward(const Action& a);
  void backward(const Action& a);
  void weights(const Action& a);
  void update();
  void each_block(const Action& a, bool backward,
                  const std::function<void(size_t, int64_t, Positions)>& visit) const;
  void call(SegmentId segment, int64_t layer, int64_t microbatch, Positions at = {},
            int64_t chunk = 0) {
    calls_.add(segment, layer, microbatch, at, chunk);
  }

  Expanded& e_;
  Program& p_;
  const CompileRequest& request_;
  const Recompute& recompute_;
  const Target& target_;
  const StageShare& share_;
  std::vector<BlockRange> ranges_;  // of each block
  std::vector<int64_t> first_;      // layer of each chunk, and where the last ends
  std::vector<bool> light_;         // of each layer: saves nothing
  CallList calls_;
};

bool Scheduler::holds(const WeightGroup& group) const {
  return std::any_of(group.blocks.begin(), group.blocks.end(), [&](size_t b) { return holds(b); });
}

// Of all stacks, numbered through.
std::vector<int64_t> Scheduler::own_layers() const {
  std::vector<int64_t> own;
  for (int64_t c = share_.stage; c < share_.pipeline.chunks(); c += stages())
    for (int64_t l = first_layer(c); l < end_layer(c); ++l) own.push_back(l);
  return own;
}

// Of one stack, by its own numbers.
std::vector<int64_t> Scheduler::own_layers(size_t block) const {
  std::vector<int64_t> own;
  for (const int64_t l : own_layers())
    if (l >= ranges_[block].first && l < ranges_[block].last)
      own.push_back(l - ranges_[block].first);
  return own;
}

// Those of the stack whose forward reads or writes it; of all where none does.
std::vector<int64_t> Scheduler::layers_using(FrameKindId kind) const {
  const auto is_in = [&](ValueId v) { return p_[v].frame == kind; };
  for (size_t b = 0; b < e_.blocks.size(); ++b)
    for (const Op& op : e_.blocks[b].forward)
      if (std::any_of(op.inputs.begin(), op.inputs.end(), is_in) ||
          std::any_of(op.outputs.begin(), op.outputs.end(), is_in))
        return own_layers(b);
  return own_layers();
}

void Scheduler::mark_light() {
  light_.assign(static_cast<size_t>(first_.back()), false);
  if (!trains()) return;
  const std::vector<int64_t> own = own_layers();
  const int64_t light = std::min(recompute_.full_layers, static_cast<int64_t>(own.size()));
  for (int64_t i = 0; i < light; ++i)
    light_[static_cast<size_t>(own[static_cast<size_t>(i)])] = true;
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
      else if (holds(*owner.at(id)))
        state_of(id, own_layers(owner.at(id)->blocks.at(0)));
    }
  };
  add(false);
  add(true);
  for (int64_t m = 0; m < request_.microbatches; ++m) add_state(calls_.named("batch"), kNone, m);
}

// The first chunk that computes in the backward: frozen embeddings do not, and no message goes
// there.
int64_t Scheduler::first_backward() const {
  int64_t chunk = 0;
  for (bool computes = false; chunk < share_.pipeline.chunks(); ++chunk) {
    each_block({ActionKind::kBackward, chunk}, true, [&](size_t b, int64_t, Positions) {
      computes = computes || e_.segments[b].backward != kNone;
    });
    if (computes) break;
  }
  return chunk;
}

// What this stage does, in the order of all stages.
std::vector<Item> Scheduler::items() const {
  std::vector<Item> items;
  const auto& all = share_.actions;
  const int64_t first = first_backward();
  const auto add = [&](const Action& a, bool backward, int64_t from, int64_t to) {
    if (from != share_.stage && to != share_.stage) return;
    items.push_back({a.finish, false, backward, a, to == share_.stage});
  };
  for (int64_t s = 0; s < stages(); ++s)
    for (const Action& a : all[static_cast<size_t>(s)]) {
      if (s == share_.stage) items.push_back({a.start, true, false, a, false});
      if (stages() == 1) continue;
      if (a.kind == ActionKind::kForward && !last_chunk(a.chunk))
        add(a, false, s, (s + 1) % stages());
      if (a.kind == ActionKind::kBackward && a.chunk > first)
        add(a, true, s, (s + stages() - 1) % stages());
    }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.key() < b.key(); });
  return items;
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
  if (!trains() || stages() == 1 || last_chunk(a.chunk)) return;
  const Cut cut = cut_at(end_layer(a.chunk));
  call(cut.messages.*what, cut.position, a.microbatch, {cut.position, cut.position}, a.chunk);
}

void Scheduler::message(const Item& item) {
  const int64_t m = item.action.microbatch, from = item.action.chunk;
  // A forward message carries what comes after the producer's layers, a backward one what comes
  // before them.
  const int64_t layer = item.backward ? first_layer(from) : end_layer(from);
  const int64_t chunk = !item.receives ? from : (item.backward ? from - 1 : from + 1);
  const auto& [s, position] = cut_at(layer);
  const SegmentId segment = item.backward ? (item.receives ? s.receive_backward : s.send_backward)
                                          : (item.receives ? s.receive_forward : s.send_forward);
  call(segment, position, m, {position, position}, chunk);
  const int64_t step = (item.backward == item.receives) ? 1 : stages() - 1;
  p_.schedule.back().wire.over = fmt::format("stage:{}", (share_.stage + step) % stages());
}

// The blocks of a chunk in order, each with its layer (kNone: it has none) among all.
void Scheduler::each_block(const Action& a, bool backward,
                           const std::function<void(size_t, int64_t, Positions)>& visit) const {
  struct Visit {
    size_t block;
    int64_t layer;
    Positions at;
  };
  std::vector<Visit> visits;
  const int64_t first = first_layer(a.chunk), end = end_layer(a.chunk);
  const int64_t encoder = request_.model.encoder_layers;
  for (size_t b = 0; b < ranges_.size(); ++b) {
    const BlockRange r = ranges_[b];
    const Block& block = e_.blocks[b];
    if (is_past(b)) continue;
    if (block.input == kNone) {
      if (a.chunk == 0) visits.push_back({b, kNone, {kNone, 0}});
    } else if (block.output == kNone) {
      if (last_chunk(a.chunk)) visits.push_back({b, kNone, {request_.model.layers, kNone}});
    } else if (!block.is_stack()) {
      if (first <= r.first && r.first < end) visits.push_back({b, kNone, {encoder, 0}});
    } else {
      for (int64_t l = std::max(first, r.first); l < std::min(end, r.last); ++l)
        visits.push_back({b, l, {l - r.first, l - r.first + 1}});
    }
  }
  if (backward) std::reverse(visits.begin(), visits.end());
  for (const Visit& v : visits) visit(v.block, v.layer, v.at);
}

void Scheduler::forward(const Action& a) {
  each_block(a, false, [&](size_t b, int64_t layer, Positions at) {
    const BlockSegments& s = e_.segments[b];
    if (layer == kNone) return call(s.forward, kNone, a.microbatch, at, a.chunk);
    const SegmentId segment = is_light(layer) ? s.light : s.forward;
    call(segment, layer - ranges_[b].first, a.microbatch, at, a.chunk);
  });
  sent(a, &Messages::keep_sent);
}

// The head's forward, loss and backward are one segment, which begins the backward.
void Scheduler::backward(const Action& a) {
  each_block(a, true, [&](size_t b, int64_t layer, Positions at) {
    const BlockSegments& s = e_.segments[b];
    if (layer == kNone) return call(s.backward, kNone, a.microbatch, at, a.chunk);
    const int64_t own = layer - ranges_[b].first;
    if (is_light(layer)) call(s.again, own, a.microbatch, at, a.chunk);
    call(s.backward, own, a.microbatch, at, a.chunk);
  });
  sent(a, &Messages::release_sent);
}

void Scheduler::weights(const Action& a) {
  each_block(a, true, [&](size_t b, int64_t layer, Positions at) {
    const int64_t own = layer == kNone ? kNone : layer - ranges_[b].first;
    call(e_.segments[b].weights, own, a.microbatch, at, a.chunk);
  });
}

void Scheduler::update() {
  const auto each = [&](SegmentId WeightGroup::*member) {
    for (const WeightGroup& g : e_.groups) {
      if (g.per_layer) {
        for (const int64_t l : own_layers(g.blocks.at(0))) call(g.*member, l, kNone);
      } else if (holds(g)) {
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
  for (size_t b = 0; b < e_.blocks.size(); ++b) {
    if (!holds(b) || is_past(b)) continue;
    if (!e_.blocks[b].is_stack())
      call(e_.segments[b].pack, kNone, kNone);
    else
      for (const int64_t l : own_layers(b)) call(e_.segments[b].pack, l, kNone);
  }
  for (const Item& item : items()) {
    if (!item.is_action)
      message(item);
    else if (item.action.kind == ActionKind::kForward)
      forward(item.action);
    else if (item.action.kind == ActionKind::kBackward)
      backward(item.action);
    else
      weights(item.action);
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
