// Names of segments, calls and buffers, and the positions of scratch regions.
#include "ir/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/names.h"

namespace tessera {

std::string segment_name(Phase phase, const std::string& subject) {
  if (phase == Phase::kJoint) return subject;
  std::string name(name_of(phase));
  if (!subject.empty()) name += "." + subject;
  return name;
}

std::string Segment::name() const { return segment_name(phase, subject); }

// No phase name is a prefix of another one followed by a dot, so at most one matches.
void Segment::set_name(std::string_view name) {
  phase = Phase::kJoint;
  subject = name;
  for (const Phase p : Enumerators<Phase>()) {
    const std::string_view word = name_of(p);
    if (p == Phase::kJoint || !name.starts_with(word)) continue;
    const std::string_view rest = name.substr(word.size());
    if (!rest.empty() && (rest[0] != '.' || rest.size() == 1)) continue;
    phase = p;
    subject = rest.empty() ? rest : rest.substr(1);
  }
}

std::string partners_of(const CommSpec& comm) {
  return comm.peer == kNone ? to_string(comm.over) : fmt::format("{}{}", kPeerPrefix, comm.peer);
}

int parameter_of(const Program& p, const Segment& s, ValueId v) {
  const BufferKindId kind = p[v].buffer;
  if (kind == kNone) return kNone;
  for (size_t i = 0; i < s.buffers.size(); ++i)
    if (s.buffers[i].kind == kind) return static_cast<int>(i);
  return kNone;
}

namespace {

std::string indexed(std::string name, int64_t layer, int64_t microbatch) {
  if (layer != kNone) name += fmt::format(" layer={}", layer);
  if (microbatch != kNone) name += fmt::format(" mb={}", microbatch);
  return name;
}

}  // namespace

std::string call_name(const Program& p, CallId call) {
  const Call& c = p.call(call);
  return indexed(fmt::format("#{} {}", call, p.segment(c).name()), c.layer, c.microbatch);
}

std::string buffer_name(const Program& p, BufferId buffer) {
  const Buffer& f = p.buffer(buffer);
  return indexed(p.kind(f.kind).name, f.layer, f.microbatch);
}

int64_t scratch_bytes(const Program& p, Queue queue) {
  int64_t bytes = 0;
  for (const Segment& s : p.segments)
    if (s.queue == queue) bytes = std::max(bytes, s.scratch_bytes);
  return bytes;
}

// Scratch regions of the queues follow one another, each aligned and as large as its largest
// segment needs.
int64_t scratch_offset(const Program& p, Queue queue) {
  int64_t offset = p.scratch_offset;
  for (const Queue q : Enumerators<Queue>()) {
    if (q >= queue) break;
    const int64_t bytes = scratch_bytes(p, q);
    offset += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  }
  return offset;
}

}  // namespace tessera
