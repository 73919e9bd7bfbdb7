// Creates host copies of buffer kinds, and the two segments that copy a buffer out and back.
#include "compile/schedule/host_copies.h"

#include <set>
#include <utility>

namespace tessera::compile {

// An earlier pass may have created copies already. They are found by their kinds and by the names
// of their segments, so that a kind never gets two.
HostCopies::HostCopies(Program& p) : p_(p) {
  std::map<std::pair<Phase, std::string>, SegmentId> segments;
  for (const SegmentId s : p.segments.ids())
    segments[{p.segments[s].phase, p.segments[s].subject}] = s;
  for (const BufferKindId host : p.kinds.ids()) {
    if (!p.kind(host).host) continue;
    const BufferKindId kind = p[p[p.kind(host).values.at(0)].of].buffer;
    const std::string& subject = p.kind(kind).name;
    copies_[kind] = {host, segments.at({Phase::kOffload, subject}),
                     segments.at({Phase::kFetch, subject})};
  }
}

const HostCopy& HostCopies::of(BufferKindId kind) {
  const auto [known, made] = copies_.try_emplace(kind);
  if (!made) return known->second;
  std::vector<Op> out, in;
  const BufferKindId host = twin(kind, out, in);
  known->second = {host, segment(Phase::kOffload, kind, out, Queue::kCopyOut, kind, host),
                   segment(Phase::kFetch, kind, in, Queue::kCopyIn, host, kind)};
  return known->second;
}

// Adds the host copy of a kind. It has one value for each offset of the kind on the device, and one
// copy op for each. The way back has the same ops with inputs and outputs exchanged.
BufferKindId HostCopies::twin(BufferKindId kind, std::vector<Op>& out, std::vector<Op>& in) {
  const auto host = p_.kinds.next_id();
  BufferKind k = p_.kind(kind);
  k.name += suffix_of(CopyKind::kHost);
  k.host = true;
  k.input = kNone;
  k.values.clear();
  std::set<int64_t> places;  // hidden states are one value per block, all at one offset
  for (const ValueId v : p_.kind(kind).values) {
    if (!places.insert(p_[v].offset).second) continue;
    Value twin = p_[v];
    twin.name += suffix_of(CopyKind::kHost);
    twin.copy = CopyKind::kHost;
    twin.of = v;
    twin.buffer = host;
    k.values.push_back(p_.values.next_id());
    Op op;
    op.attributes = Copy{};
    op.inputs = {v};
    op.outputs = {k.values.back()};
    op.origin = "offload";
    out.push_back(op);
    std::swap(op.inputs, op.outputs);
    op.origin = "fetch";
    in.push_back(op);
    p_.values.push_back(std::move(twin));
  }
  p_.kinds.push_back(std::move(k));
  return host;
}

SegmentId HostCopies::segment(Phase phase, BufferKindId subject, std::vector<Op> ops, Queue queue,
                              BufferKindId from, BufferKindId to) {
  Segment s;
  s.phase = phase;
  s.subject = p_.kind(subject).name;
  s.ops = std::move(ops);
  for (Op& op : s.ops) op.queue = queue;
  s.queue = queue;
  s.buffers = {{from, Access::kRead}, {to, Access::kWrite}};
  return p_.segments.push_back(std::move(s));
}

Call copy_call(SegmentId segment, const Buffer& of, std::vector<BufferId> buffers) {
  Call c;
  c.segment = segment;
  c.layer = of.layer;
  c.microbatch = of.microbatch;
  c.buffers = std::move(buffers);
  return c;
}

}  // namespace tessera::compile
