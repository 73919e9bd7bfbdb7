#include "compile/schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"

namespace tessera {
namespace {

class Scheduler {
 public:
  Scheduler(Expanded expanded, const CompileRequest& request, const Recompute& recompute,
            const Target& target)
      : e_(std::move(expanded)),
        p_(e_.program),
        request_(request),
        recompute_(recompute),
        target_(target) {}

  Program run();

 private:
  int64_t layers(size_t block) const {
    return e_.blocks[block].name == "layer" ? e_.blocks[block].layers : 1;
  }
  void state();
  void add_state(FrameKindId kind, int64_t layer, int64_t microbatch);
  void train(int64_t microbatch);
  void backward(size_t block, int64_t layer, int64_t microbatch);
  void forward_only();
  void update();
  void call(SegmentId segment, int64_t layer, int64_t microbatch, int64_t stream = kNone);
  FrameId frame(FrameKindId kind, int64_t layer, int64_t microbatch, int64_t stream);

  Expanded e_;
  Program& p_;
  const CompileRequest& request_;
  const Recompute& recompute_;
  const Target& target_;
  std::map<std::tuple<FrameKindId, int64_t, int64_t>, FrameId> frames_;
  std::map<std::string, FrameKindId> named_;
};

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The stream between blocks: position s is the input of layer s; what a layer writes is the
// input of the next. "hidden'" and "hidden" are one kind of frame under two names.
bool is_output(const std::string& kind) { return kind.ends_with('\''); }

FrameId Scheduler::frame(FrameKindId kind, int64_t layer, int64_t microbatch, int64_t stream) {
  const FrameKind& k = p_.kind(kind);
  const bool streams = k.name.starts_with("hidden") || k.name.starts_with("d_hidden");
  if (streams) {
    const std::string base = is_output(k.name) ? k.name.substr(0, k.name.size() - 1) : k.name;
    layer = is_output(k.name) ? stream + 1 : stream;
    if (named_.contains(base)) kind = named_.at(base);
  } else if (!(k.per & kPerLayer)) {
    layer = kNone;
  }
  if (!(k.per & kPerMicrobatch)) microbatch = kNone;
  const auto key = std::tuple(kind, layer, microbatch);
  if (!frames_.contains(key)) {
    p_.frames.push_back({kind, layer, microbatch, kNone, p_.kind(kind).state});
    frames_[key] = static_cast<FrameId>(p_.frames.size() - 1);
  }
  return frames_.at(key);
}

void Scheduler::call(SegmentId segment, int64_t layer, int64_t microbatch, int64_t stream) {
  if (segment == kNone) return;
  Call c;
  c.segment = segment;
  c.layer = layer;
  c.microbatch = microbatch;
  for (const Parameter& parameter : p_.segment(segment).frames)
    c.frames.push_back(frame(parameter.kind, layer, microbatch, stream));
  p_.schedule.push_back(std::move(c));
}

void Scheduler::add_state(FrameKindId kind, int64_t layer, int64_t microbatch) {
  const FrameId f = frame(kind, layer, microbatch, kNone);
  p_.frames[static_cast<size_t>(f)].offset = p_.state_bytes;
  p_.state_bytes = align(p_.state_bytes + p_.kind(kind).bytes, target_.alignment);
}

// In the order of the kinds, batches last: programs that differ in the number of micro-batches
// agree on all before them.
void Scheduler::state() {
  for (size_t k = 0; k < p_.kinds.size(); ++k) {
    named_.emplace(p_.kinds[k].name, static_cast<FrameKindId>(k));
    if (!p_.kinds[k].state || p_.kinds[k].name == "batch") continue;
    const int64_t count = (p_.kinds[k].per & kPerLayer) ? request_.model.layers : 1;
    for (int64_t l = 0; l < count; ++l) add_state(static_cast<FrameKindId>(k), l, kNone);
  }
  for (int64_t m = 0; m < request_.microbatches; ++m) add_state(named_.at("batch"), kNone, m);
}

void Scheduler::backward(size_t block, int64_t layer, int64_t microbatch) {
  const BlockSegments& s = e_.segments[block];
  const int64_t stream = e_.blocks[block].input == kNone ? -1 : layer;
  if (layer < recompute_.full_layers) call(s.again, layer, microbatch, stream);
  call(s.backward, layer, microbatch, stream);
}

void Scheduler::train(int64_t m) {
  int64_t stream = -1;
  for (size_t b = 0; b < e_.blocks.size(); ++b) {
    for (int64_t l = 0; l < layers(b); ++l, ++stream) {
      const BlockSegments& s = e_.segments[b];
      const bool light = e_.blocks[b].name == "layer" && l < recompute_.full_layers;
      if (e_.blocks[b].loss)
        call(s.backward, l, m, stream);
      else
        call(light ? s.light : s.forward, l, m, stream);
    }
  }
  for (size_t b = e_.blocks.size(); b-- > 0;) {
    if (e_.blocks[b].loss) continue;
    for (int64_t l = layers(b); l-- > 0;) backward(b, l, m);
  }
}

void Scheduler::forward_only() {
  int64_t stream = -1;
  for (size_t b = 0; b < e_.blocks.size(); ++b)
    for (int64_t l = 0; l < layers(b); ++l, ++stream) call(e_.segments[b].forward, l, 0, stream);
}

void Scheduler::update() {
  const auto each = [&](SegmentId GroupSegments::*member) {
    for (const GroupSegments& g : e_.groups)
      for (int64_t l = 0; l < (g.per_layer ? request_.model.layers : 1); ++l)
        call(g.*member, l, kNone);
  };
  each(&GroupSegments::squares);
  call(e_.clip, kNone, kNone);
  each(&GroupSegments::update);
}

Program Scheduler::run() {
  state();
  call(e_.clear, kNone, kNone);
  for (size_t b = 0; b < e_.blocks.size(); ++b)
    for (int64_t l = 0; l < layers(b); ++l) call(e_.segments[b].pack, l, kNone);
  if (request_.purpose == Purpose::kTrain) {
    for (int64_t m = 0; m < request_.microbatches; ++m) train(m);
    update();
  } else {
    forward_only();
  }
  return std::move(e_.program);
}

}  // namespace

Program schedule(Expanded expanded, const CompileRequest& request, const Recompute& recompute,
                 const Target& target) {
  return Scheduler(std::move(expanded), request, recompute, target).run();
}

}  // namespace tessera
