#include "compile/call_list.h"

#include <set>

#include "ir/rule.h"

namespace tessera {
namespace {

// The streams between blocks: position s of one is the input of layer s of its stack; what a layer
// writes is the input of the next. "hidden'" and "hidden" are one kind of frame under two names.
bool is_output(const std::string& kind) { return kind.ends_with('\''); }

// What a segment says of its message or collective: all of a wire but its label.
Wire unlabelled_wire(const Program& p, const Segment& s) {
  Wire w;
  for (const Op& op : s.ops) {
    const bool message = op.kind == OpKind::kSend || op.kind == OpKind::kReceive;
    const bool collective = op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter ||
                            op.kind == OpKind::kAllGather;
    if (!message && !collective) continue;
    if (collective) w.over = op.attributes.text("over");
    w.operation = s.queue == Queue::kCompute ? "segment" : std::string(rule_of(op.kind).name);
    const Value& v = p[message && op.inputs.empty() ? op.outputs[0] : op.inputs[0]];
    w.bytes += piece_of(op, v.shape.elements()).elements() * size_of(wire_type(op, v));
  }
  return w;
}

std::string label_of(const Program& p, const Call& c) {
  const Segment& s = p.segment(c);
  const bool message = s.queue >= Queue::kSendForward;
  std::string what = message ? p.kind(p.frame(c.frames.at(0)).kind).name : s.name;
  if (c.layer != kNone) what += " layer=" + std::to_string(c.layer);
  if (c.microbatch != kNone) what += " mb=" + std::to_string(c.microbatch);
  return what;
}

// Of the streams between blocks and what else travels with the messages.
std::set<std::string> streams_of(const IdVector<BlockId, Block>& blocks) {
  std::set<std::string> streams;
  for (const Block& b : blocks) streams.insert({b.from, "d_" + b.from, b.to, "d_" + b.to});
  return streams;
}

}  // namespace

CallList::CallList(Program& p, const IdVector<BlockId, Block>& blocks, bool crosses)
    : p_(p), wires_(p.segments.size()) {
  const std::set<std::string> streams = streams_of(blocks);
  for (const FrameKindId k : p_.kinds.ids()) named_.emplace(p_.kinds[k].name, k);
  for (const FrameKindId k : p_.kinds.ids()) {
    const FrameKind& kind = p_.kinds[k];
    KindUse use;
    use.output = is_output(kind.name);
    const std::string base = use.output ? kind.name.substr(0, kind.name.size() - 1) : kind.name;
    use.stream = streams.contains(base);
    const bool renamed = use.stream && named_.contains(base);
    use.kind = renamed ? named_.at(base) : k;
    // On one stage it is handed over in place: there is no message between chunks.
    use.crosses = crosses && (use.stream || base == "memory" || base == "d_memory");
    use.per_layer = (kind.per & kPerLayer) != 0;
    use.per_microbatch = (kind.per & kPerMicrobatch) != 0;
    uses_.push_back(use);
  }
}

FrameId CallList::frame(FrameKindId asked, int64_t layer, int64_t microbatch, Positions at,
                        int64_t chunk) {
  const KindUse& use = uses_[asked];
  if (use.stream)
    layer = use.output ? at.out : at.in;
  else if (!use.per_layer)
    layer = kNone;
  if (!use.crosses) chunk = 0;
  if (!use.per_microbatch) microbatch = kNone;
  const auto [known, made] =
      frames_.try_emplace({use.kind, layer, microbatch, chunk}, p_.frames.next_id());
  if (made) p_.frames.push_back({use.kind, layer, microbatch, kNone, p_.kind(use.kind).state});
  return known->second;
}

void CallList::add(SegmentId segment, int64_t layer, int64_t microbatch, Positions at,
                   int64_t chunk) {
  if (segment == kNone) return;
  const Segment& s = p_.segment(segment);
  Call c;
  c.segment = segment;
  c.layer = layer;
  c.microbatch = microbatch;
  c.frames.reserve(s.frames.size());
  for (const Parameter& parameter : s.frames)
    c.frames.push_back(frame(parameter.kind, layer, microbatch, at, chunk));
  std::optional<Wire>& wire = wires_[segment];
  if (!wire) wire = unlabelled_wire(p_, s);
  c.wire = *wire;
  if (!wire->operation.empty()) c.wire.label = label_of(p_, c);
  p_.schedule.push_back(std::move(c));
}

Wire wire_of(const Program& p, const Call& c) {
  Wire w = unlabelled_wire(p, p.segment(c));
  if (!w.operation.empty()) w.label = label_of(p, c);
  return w;
}

}  // namespace tessera
