// Turns (segment, layer, micro-batch) into calls on buffers. A buffer is identified by its kind,
// layer, micro-batch and chunk, as far as its kind has them, and is created at its first use. The
// input and the output of a layer are two positions of one kind, the hidden states: position l is
// the input of layer l, and what layer l writes is position l + 1.
#include "compile/schedule/call_list.h"

#include "ir/rule.h"

namespace tessera::compile {
namespace {

// Returns what a segment's ops communicate: a CommSpec without label and peer.
CommSpec unlabelled_comm(const Program& p, const Segment& s) {
  CommSpec w;
  for (const Op& op : s.ops) {
    if (!communicates(op)) continue;
    if (!is_message(op)) w.over = *over_of(op.attributes);
    w.kind = s.queue == Queue::kCompute ? CommKind::kSegment : rule_of(op).effects.comm;
    const Value& v = p[op.inputs.empty() ? op.outputs[0] : op.inputs[0]];
    const int64_t elements = piece_of(op, v.shape.elements()).elements() / op.chunk.count;
    w.bytes += elements * size_of(wire_type(op, v));
  }
  return w;
}

std::string label_of(const Program& p, const Call& c) {
  const Segment& s = p.segment(c);
  const bool message = s.queue >= Queue::kSendForward;
  std::string what = message ? p.kind(p.buffer(c.buffers.at(0)).kind).name : s.name();
  if (c.layer != kNone) what += " layer=" + std::to_string(c.layer);
  if (c.microbatch != kNone) what += " mb=" + std::to_string(c.microbatch);
  return what;
}

// Returns true for hidden states and their gradients: position l is the input of layer l of the
// stack, and what layer l writes is the input of the next.
bool is_stream(const Program& p, const BufferKind& kind) {
  if (kind.values.empty() || !(kind.indexed_by & kPerLayer)) return false;
  const Role role = p[kind.values[0]].role;
  return role == Role::kHidden || role == Role::kHiddenGradient;
}

}  // namespace

CallList::CallList(LoweredGraph& e, bool crosses) : p_(e.program), comms_(p_.segments.size()) {
  for (const BufferKindId k : p_.kinds.ids()) {
    const BufferKind& kind = p_.kinds[k];
    BufferKindUse use;
    use.output = kind.input != kNone;
    use.stream = is_stream(p_, kind);
    use.kind = use.output ? kind.input : k;
    // With one stage, the value is handed over in place: there is no message between chunks.
    const bool encoder = k == e.encoder_output || k == e.encoder_output_gradient;
    use.crosses = crosses && (use.stream || encoder);
    use.per_layer = (kind.indexed_by & kPerLayer) != 0;
    use.per_microbatch = (kind.indexed_by & kPerMicrobatch) != 0;
    uses_.push_back(use);
  }
  // Copies of sent hidden states also belong to a chunk: several chunks without layers would
  // otherwise all use the one position at the same cut.
  for (const BoundarySegments& m : e.messages)
    if (m.keep_sent)
      for (const Parameter& x : p_.segment(m.keep_sent).buffers)
        if (x.access == Access::kWrite) uses_[x.kind].crosses = crosses;
}

BufferId CallList::buffer(BufferKindId asked, int64_t layer, int64_t microbatch, Positions at,
                          int64_t chunk) {
  const BufferKindUse& use = uses_[asked];
  if (use.stream)
    layer = use.output ? at.out : at.in;
  else if (!use.per_layer)
    layer = kNone;
  if (!use.crosses) chunk = 0;
  if (!use.per_microbatch) microbatch = kNone;
  const auto [known, made] =
      buffers_.try_emplace({use.kind, layer, microbatch, chunk}, p_.buffers.next_id());
  if (made) p_.buffers.push_back({use.kind, layer, microbatch, kNone, p_.kind(use.kind).state});
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
  c.buffers.reserve(s.buffers.size());
  for (const Parameter& parameter : s.buffers)
    c.buffers.push_back(buffer(parameter.kind, layer, microbatch, at, chunk));
  std::optional<CommSpec>& comm = comms_[segment];
  if (!comm) comm = unlabelled_comm(p_, s);
  c.comm = *comm;
  if (comm->kind != CommKind::kSilent) c.comm.label = label_of(p_, c);
  p_.schedule.push_back(std::move(c));
}

CommSpec comm_of(const Program& p, const Call& c) {
  CommSpec w = unlabelled_comm(p, p.segment(c));
  if (w.kind != CommKind::kSilent) w.label = label_of(p, c);
  return w;
}

}  // namespace tessera::compile
