#include "compile/schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "ir/rule.h"

namespace tessera {
namespace {

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The stream between blocks: position s is the input of layer s; what a layer writes is the
// input of the next. "hidden'" and "hidden" are one kind of frame under two names.
bool is_output(const std::string& kind) { return kind.ends_with('\''); }
bool is_stream(const std::string& kind) {
  return kind.starts_with("hidden") || kind.starts_with("d_hidden");
}

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
        share_(share) {}

  Program run();

 private:
  int64_t stages() const { return share_.pipeline.stages; }
  bool trains() const { return request_.purpose == Purpose::kTrain; }
  bool last_chunk(int64_t c) const { return c + 1 == share_.pipeline.chunks(); }
  int64_t end_layer(int64_t c) const {
    return share_.first_layer(c) + share_.layers[static_cast<size_t>(c)];
  }
  std::vector<int64_t> own_layers() const;
  bool is_light(int64_t layer) const;
  size_t block(const char* name) const;
  void state();
  void state_of(FrameKindId kind, bool per_layer);
  void add_state(FrameKindId kind, int64_t layer, int64_t microbatch);
  std::vector<Item> items() const;
  void message(const Item& item);
  void forward(const Action& a);
  void backward(const Action& a);
  void weights(const Action& a);
  void update();
  void call(SegmentId segment, int64_t layer, int64_t microbatch, int64_t stream = kNone,
            int64_t chunk = 0);
  FrameId frame(FrameKindId kind, int64_t layer, int64_t microbatch, int64_t stream, int64_t chunk);

  Expanded& e_;
  Program& p_;
  const CompileRequest& request_;
  const Recompute& recompute_;
  const Target& target_;
  const StageShare& share_;
  std::map<std::tuple<FrameKindId, int64_t, int64_t, int64_t>, FrameId> frames_;
  std::map<std::string, FrameKindId> named_;
};

FrameId Scheduler::frame(FrameKindId kind, int64_t layer, int64_t microbatch, int64_t stream,
                         int64_t chunk) {
  const FrameKind& k = p_.kind(kind);
  if (is_stream(k.name)) {
    const std::string base = is_output(k.name) ? k.name.substr(0, k.name.size() - 1) : k.name;
    layer = is_output(k.name) ? stream + 1 : stream;
    if (named_.contains(base)) kind = named_.at(base);
    if (stages() == 1) chunk = 0;  // handed over in place: there is no message between chunks
  } else {
    chunk = 0;
    if (!(k.per & kPerLayer)) layer = kNone;
  }
  if (!(k.per & kPerMicrobatch)) microbatch = kNone;
  const auto key = std::tuple(kind, layer, microbatch, chunk);
  if (!frames_.contains(key)) {
    p_.frames.push_back({kind, layer, microbatch, kNone, p_.kind(kind).state});
    frames_[key] = static_cast<FrameId>(p_.frames.size() - 1);
  }
  return frames_.at(key);
}

void Scheduler::call(SegmentId segment, int64_t layer, int64_t microbatch, int64_t stream,
                     int64_t chunk) {
  if (segment == kNone) return;
  Call c;
  c.segment = segment;
  c.layer = layer;
  c.microbatch = microbatch;
  for (const Parameter& parameter : p_.segment(segment).frames)
    c.frames.push_back(frame(parameter.kind, layer, microbatch, stream, chunk));
  c.wire = wire_of(p_, c);
  p_.schedule.push_back(std::move(c));
}

size_t Scheduler::block(const char* name) const {
  for (size_t b = 0; b < e_.blocks.size(); ++b)
    if (e_.blocks[b].name == name) return b;
  CHECK(false, "the model has no block {}", name);
}

std::vector<int64_t> Scheduler::own_layers() const {
  std::vector<int64_t> own;
  for (int64_t c = share_.stage; c < share_.pipeline.chunks(); c += stages())
    for (int64_t l = share_.first_layer(c); l < end_layer(c); ++l) own.push_back(l);
  return own;
}

bool Scheduler::is_light(int64_t layer) const {
  if (!trains() || recompute_.full_layers == 0) return false;
  const std::vector<int64_t> own = own_layers();
  return std::find(own.begin(), own.end(), layer) - own.begin() < recompute_.full_layers;
}

void Scheduler::add_state(FrameKindId kind, int64_t layer, int64_t microbatch) {
  const FrameId f = frame(kind, layer, microbatch, kNone, 0);
  p_.frames[static_cast<size_t>(f)].offset = p_.state_bytes;
  p_.state_bytes = align(p_.state_bytes + p_.kind(kind).bytes, target_.alignment);
}

void Scheduler::state_of(FrameKindId kind, bool per_layer) {
  if (!per_layer) return add_state(kind, kNone, kNone);
  for (const int64_t l : own_layers()) add_state(kind, l, kNone);
}

// In the order of the kinds, batches last: programs that differ in the number of micro-batches
// agree on all before them.
void Scheduler::state() {
  std::map<FrameKindId, const WeightGroup*> owner;
  for (const WeightGroup& g : e_.groups)
    for (const FrameKindId k : g.state) owner[k] = &g;
  for (size_t k = 0; k < p_.kinds.size(); ++k) {
    const auto id = static_cast<FrameKindId>(k);
    named_.emplace(p_.kinds[k].name, id);
    if (!p_.kinds[k].state || p_.kinds[k].name == "batch") continue;
    if (owner.contains(id)) {
      const auto& blocks = owner.at(id)->blocks;
      if (std::none_of(blocks.begin(), blocks.end(),
                       [&](size_t b) { return share_.holds(e_.blocks[b]); }))
        continue;
    }
    state_of(id, (p_.kinds[k].per & kPerLayer) != 0);
  }
  for (int64_t m = 0; m < request_.microbatches; ++m) add_state(named_.at("batch"), kNone, m);
}

// What this stage does, in the order of all stages.
std::vector<Item> Scheduler::items() const {
  std::vector<Item> items;
  const auto& all = share_.actions;
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
      if (a.kind == ActionKind::kBackward && a.chunk > 0)
        add(a, true, s, (s + stages() - 1) % stages());
    }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.key() < b.key(); });
  return items;
}

void Scheduler::message(const Item& item) {
  const int64_t m = item.action.microbatch, from = item.action.chunk;
  // A forward message carries what comes after the producer's layers, a backward one what comes
  // before them.
  const int64_t position = item.backward ? share_.first_layer(from) : end_layer(from);
  const int64_t chunk = !item.receives ? from : (item.backward ? from - 1 : from + 1);
  const SegmentId segment = item.backward ? (item.receives ? e_.receive_backward : e_.send_backward)
                                          : (item.receives ? e_.receive_forward : e_.send_forward);
  call(segment, position, m, position, chunk);
  const int64_t step = (item.backward == item.receives) ? 1 : stages() - 1;
  p_.schedule.back().wire.over = fmt::format("stage:{}", (share_.stage + step) % stages());
}

void Scheduler::forward(const Action& a) {
  const int64_t m = a.microbatch;
  if (a.chunk == 0) call(e_.segments[block("embed")].forward, kNone, m, -1, a.chunk);
  const BlockSegments& s = e_.segments[block("layer")];
  for (int64_t l = share_.first_layer(a.chunk); l < end_layer(a.chunk); ++l)
    call(is_light(l) ? s.light : s.forward, l, m, l, a.chunk);
  if (last_chunk(a.chunk) && !trains())
    call(e_.segments[block("head")].forward, kNone, m, request_.model.layers, a.chunk);
}

// The head's forward, loss and backward are one segment, which begins the backward.
void Scheduler::backward(const Action& a) {
  const int64_t m = a.microbatch;
  if (last_chunk(a.chunk))
    call(e_.segments[block("head")].backward, kNone, m, request_.model.layers, a.chunk);
  const BlockSegments& s = e_.segments[block("layer")];
  for (int64_t l = end_layer(a.chunk); l-- > share_.first_layer(a.chunk);) {
    if (is_light(l)) call(s.again, l, m, l, a.chunk);
    call(s.backward, l, m, l, a.chunk);
  }
  if (a.chunk == 0) call(e_.segments[block("embed")].backward, kNone, m, -1, a.chunk);
}

void Scheduler::weights(const Action& a) {
  for (int64_t l = end_layer(a.chunk); l-- > share_.first_layer(a.chunk);)
    call(e_.segments[block("layer")].weights, l, a.microbatch, l, a.chunk);
}

void Scheduler::update() {
  const auto each = [&](SegmentId WeightGroup::*member) {
    for (const WeightGroup& g : e_.groups) {
      if (g.per_layer) {
        for (const int64_t l : own_layers()) call(g.*member, l, kNone);
      } else if (std::any_of(g.blocks.begin(), g.blocks.end(),
                             [&](size_t b) { return share_.holds(e_.blocks[b]); })) {
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
    if (!share_.holds(e_.blocks[b])) continue;
    if (e_.blocks[b].name != "layer")
      call(e_.segments[b].pack, kNone, kNone);
    else
      for (const int64_t l : own_layers()) call(e_.segments[b].pack, l, kNone);
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

int64_t StageShare::first_layer(int64_t chunk) const {
  int64_t first = 0;
  for (int64_t c = 0; c < chunk; ++c) first += layers[static_cast<size_t>(c)];
  return first;
}

bool StageShare::holds(const Block& block) const {
  if (block.name == "embed") return stage == 0;
  if (block.name == "head") return stage == pipeline.stages - 1;
  for (int64_t c = stage; c < pipeline.chunks(); c += pipeline.stages)
    if (layers[static_cast<size_t>(c)] > 0) return true;
  return false;
}

Wire wire_of(const Program& p, const Call& c) {
  Wire w;
  const Segment& s = p.segment(c);
  for (const Op& op : s.ops) {
    const bool message = op.kind == OpKind::kSend || op.kind == OpKind::kReceive;
    const bool collective = op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter ||
                            op.kind == OpKind::kAllGather;
    if (!message && !collective) continue;
    if (collective) w.over = op.attributes.text("over");
    w.operation = s.queue == Queue::kCompute ? "segment" : std::string(rule_of(op.kind).name);
    w.bytes += p[message && op.inputs.empty() ? op.outputs[0] : op.inputs[0]].bytes();
  }
  if (w.operation.empty()) return w;
  const bool message = s.queue >= Queue::kSendForward;
  std::string what = message ? p.kind(p.frame(c.frames.at(0)).kind).name : s.name;
  if (c.layer != kNone) what += fmt::format(" layer={}", c.layer);
  if (c.microbatch != kNone) what += fmt::format(" mb={}", c.microbatch);
  w.label = what;
  return w;
}

Program schedule(Expanded& expanded, const CompileRequest& request, const Recompute& recompute,
                 const Target& target, const StageShare& share) {
  return Scheduler(expanded, request, recompute, target, share).run();
}

}  // namespace tessera
