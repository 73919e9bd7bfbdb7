// Verifies each number of values and programs, alone and against related ones, so that later checks
// can compute with them: nothing overflows, and no index is out of range.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/names.h"
#include "ir/state.h"
#include "ir/verify.h"

namespace tessera {
namespace {

using Findings = std::vector<std::string>;

// Sums of a few sizes, and a size times a few small numbers, fit in 64 bits.
constexpr int64_t kMostBytes = int64_t{1} << 56;
constexpr int64_t kMostRanks = int64_t{1} << 31;
// The largest layer or micro-batch number; for hidden states, numbers go up to one more than the
// last layer.
constexpr int64_t kMostLabel = int64_t{1} << 31;
constexpr int kMostDimensions = 8;  // rules label them "abcdefgh"

bool is_size(int64_t bytes) { return bytes >= 0 && bytes <= kMostBytes; }
bool is_label(int64_t label) { return label == kNone || (label >= 0 && label <= kMostLabel); }

std::string size_text(const std::string& what, int64_t found) {
  return fmt::format("{} is {} bytes, expected 0 to {}", what, found, kMostBytes);
}

// Returns true if the shape has 1 to 8 dimensions of at least 1, and at most kMostBytes bytes.
bool is_array(const Shape& s, DType type) {
  if (s.rank() < 1 || s.rank() > kMostDimensions) return false;
  int64_t bytes = size_of(type);
  for (const int64_t n : s.dims()) {
    if (n < 1 || bytes > kMostBytes / n) return false;
    bytes *= n;
  }
  return true;
}

// Verifies that the parts of a packed weight cover one dimension, in order.
Findings verify_parts(const Value& v) {
  int64_t next = 0;
  const int64_t dim = v.parts[0].dim;
  const int64_t extent = dim >= 0 && dim < v.shape.rank() ? v.shape[static_cast<int>(dim)] : 0;
  for (const WeightPart& part : v.parts) {
    if (part.dim != dim || part.first != next || part.count < 1 || part.count > extent - next)
      return {fmt::format("{}: part {} is [{}, {}+{}) of dimension {} of {}", v.name, part.name,
                          part.first, part.first, part.count, part.dim, to_string(v.shape))};
    next += part.count;
  }
  if (next == extent) return {};
  return {fmt::format("{}: its parts cover {} of the {} entries of dimension {}", v.name, next,
                      extent, dim)};
}

// Returns true if the shape is rows of `whole`, as ParentSlice describes them.
bool is_part(const Shape& s, const ParentSlice& whole) {
  const Shape& w = whole.shape;
  if (w.rank() != s.rank() || s.rank() < 2 || whole.copies < 1 || whole.first < 0) return false;
  if (s[0] % whole.copies != 0 || s[0] / whole.copies != w[0]) return false;
  for (int d = 2; d < s.rank(); ++d)
    if (s[d] != w[d]) return false;
  return whole.copies <= w[1] && s[1] <= w[1] / whole.copies &&
         whole.first <= w[1] - whole.copies * s[1];
}

// Verifies that the shape on one rank follows from the global shape, the sharding and the mesh.
Findings verify_local(const Value& v, const Mesh& mesh) {
  for (const int8_t place : v.sharding.place)
    if (place >= v.shape.rank())
      return {
          fmt::format("{}: is split along dimension {} of {}", v.name, place, to_string(v.shape))};
  const Shape expected = part_shape(v.shape, v.sharding, mesh);
  if (v.local() == expected && v.part.has_value() == (expected != v.shape)) return {};
  return {fmt::format("{}: one rank has {} of {}, but its sharding gives {}", v.name,
                      to_string(v.local()), to_string(v.shape), to_string(expected))};
}

Findings verify_value(const Value& v, const Mesh& mesh) {
  if (!is_array(v.shape, v.dtype) || (v.parent && !is_array(v.parent->shape, v.dtype)))
    return {fmt::format("{}: {} {} is not an array of 1 to {} dimensions and at most {} bytes",
                        v.name, name_of(v.dtype), to_string(v.shape), kMostDimensions, kMostBytes)};
  Findings findings = verify_local(v, mesh);
  if (!v.parts.empty()) append(findings, verify_parts(v));
  if (v.parent && !is_part(v.shape, *v.parent))
    findings.push_back(fmt::format("{}: {} is not from {} with {} copies of {} {}", v.name,
                                   to_string(v.shape), v.parent->first, v.parent->copies,
                                   v.parent->name, to_string(v.parent->shape)));
  if (!(v.initial.std >= 0) || !std::isfinite(v.initial.std) || !std::isfinite(v.initial.constant))
    findings.push_back(fmt::format("{}: starts with the deviation {} and the constant {}", v.name,
                                   v.initial.std, v.initial.constant));
  const int64_t size = v.role == Role::kStep ? int64_t{kStepSize} : int64_t{kReportSize};
  if ((v.role == Role::kStep || v.role == Role::kReport) && v.shape != Shape{size})
    findings.push_back(fmt::format("{}: is {}, expected [{}]", v.name, to_string(v.shape), size));
  if (v.offset != kNone && !is_size(v.offset))
    findings.push_back(
        fmt::format("{}: begins at byte {}, expected 0 to {}", v.name, v.offset, kMostBytes));
  return findings;
}

// Verifies that a gradient, or another value that belongs to a weight that is a part of a larger
// one, is the same part.
Findings verify_part(const Value& v, const std::vector<const Value*>& weights) {
  const bool found = std::any_of(weights.begin(), weights.end(), [&](const Value* w) {
    return *w->parent == *v.parent && w->shape == v.shape;
  });
  if (found) return {};
  return {fmt::format("{}: is the rows from {} of {} {}, but no weight of that shape is", v.name,
                      v.parent->first, v.parent->name, to_string(v.parent->shape))};
}

// Verifies that the weights that are parts of one weight of the checkpoint cover its rows, each
// once.
Findings verify_wholes(ValueSpan values) {
  std::map<std::string, std::vector<const Value*>> by_whole;
  for (const Value& v : values)
    if (v.parent && v.role == Role::kWeight) by_whole[v.parent->name].push_back(&v);
  Findings findings;
  for (const Value& v : values)
    if (v.parent && by_whole.contains(v.parent->name))
      append(findings, verify_part(v, by_whole[v.parent->name]));
  for (auto& [name, members] : by_whole) {
    std::sort(members.begin(), members.end(),
              [](const Value* a, const Value* b) { return a->parent->first < b->parent->first; });
    int64_t next = 0;
    const Value* before = nullptr;
    for (const Value* v : members) {
      // Layers of another kind have a weight with the same name, which is the same part.
      if (before != nullptr && v->name == before->name && *v->parent == *before->parent) continue;
      before = v;
      if (v->parent->first != next || v->parent->shape != members[0]->parent->shape)
        findings.push_back(
            fmt::format("{}: is the rows from {} of {} {}, expected the rows from {} of {}",
                        v->name, v->parent->first, name, to_string(v->parent->shape), next,
                        to_string(members[0]->parent->shape)));
      next = v->parent->first + v->parent->copies * v->shape[1];
    }
    if (next != members[0]->parent->shape[1])
      findings.push_back(fmt::format("{}: its parts cover {} of {} rows", name, next,
                                     members[0]->parent->shape[1]));
  }
  return findings;
}

// Verifies the rows of a weight that attention scores limit: they are in ascending order and within
// a key/value head, and there is one score per head.
Findings verify_clips(const Value& v, ValueSpan values) {
  const int64_t rows = v.shape.rank() > 2 ? v.shape.product(1, v.shape.rank() - 1) : 0;
  Findings findings;
  int64_t next = 0;
  for (const ClippedRows& c : v.clips) {
    if (!values.contains(c.scores) || values[c.scores].role != Role::kMaxScores ||
        values[c.scores].shape != Shape{v.shape[0]})
      findings.push_back(
          fmt::format("{}: %{} are not attention scores of its heads", v.name, c.scores));
    if (c.first < next || c.last <= c.first || c.last > rows || !(c.share > 0 && c.share <= 1))
      findings.push_back(
          fmt::format("{}: rows {} to {} of {} are multiplied by the power {} of a factor", v.name,
                      c.first, c.last, rows, c.share));
    next = c.last;
  }
  return findings;
}

// Returns true if the stages are in ascending order and exist in the mesh.
bool are_stages(const std::vector<int64_t>& stages, const Mesh& mesh) {
  return std::is_sorted(stages.begin(), stages.end(), std::less_equal<>()) &&
         std::all_of(stages.begin(), stages.end(),
                     [&](int64_t s) { return s >= 0 && s < mesh[AxisKind::kPipeline]; });
}

Findings verify_program(const Program& p) {
  Findings findings;
  int64_t ranks = 1;
  for (const int64_t n : p.mesh.size) {
    if (n < 1 || n > kMostRanks / ranks)
      return {fmt::format("the mesh has the axes {}, expected up to {} ranks",
                          fmt::join(p.mesh.size, " x "), kMostRanks)};
    ranks *= n;
  }
  if (!are_stages({p.stage}, p.mesh))
    findings.push_back(fmt::format("the program is for stage {}, but the mesh has {} stages",
                                   p.stage, p.mesh[AxisKind::kPipeline]));
  const std::pair<const char*, int64_t> sizes[] = {{"the state", p.state_bytes},
                                                   {"the offset of scratch", p.scratch_offset},
                                                   {"the arena", p.bytes},
                                                   {"the host's arena", p.host_bytes},
                                                   {"the live set", p.live_bytes}};
  for (const auto& [what, bytes] : sizes)
    if (!is_size(bytes)) findings.push_back(size_text(what, bytes));
  return findings;
}

Findings verify_kind(const Program& p, const BufferKind& k) {
  Findings findings;
  if (!is_size(k.bytes)) findings.push_back(size_text(k.name, k.bytes));
  if (!are_stages(k.stages, p.mesh))
    findings.push_back(fmt::format("{}: is held by the stages {} of {}", k.name,
                                   fmt::join(k.stages, ","), p.mesh[AxisKind::kPipeline]));
  if (k.like != kNone && !k.stages.empty() && p.kind(k.like).stages != k.stages)
    findings.push_back(fmt::format("{}: is held by the stages [{}], {} by [{}]", k.name,
                                   fmt::join(k.stages, ","), p.kind(k.like).name,
                                   fmt::join(p.kind(k.like).stages, ",")));
  std::set<ValueId> members;
  for (const ValueId v : k.values)
    if (!members.insert(v).second)
      findings.push_back(fmt::format("{}: has {} twice", k.name, p[v].name));
  return findings;
}

Findings verify_segment(const Program& p, const Segment& s) {
  Findings findings;
  if (!is_size(s.scratch_bytes))
    findings.push_back(size_text(s.name() + ": its scratch", s.scratch_bytes));
  for (const Op& op : s.ops) {
    const GroupRef* const over = over_of(op.attributes);
    if (over != nullptr && !are_stages(over->stages, p.mesh))
      findings.push_back(fmt::format("{}: is over {} of {}", s.name(), to_string(*over),
                                     p.mesh[AxisKind::kPipeline]));
  }
  return findings;
}

// Verifies a buffer. It has a layer and a micro-batch if its kind has one buffer for each. Two
// exceptions: a gradient that is reduced after each micro-batch has a buffer per micro-batch, and
// buffers of a block that is not a stack need no layer. `first` is the first buffer of the kind;
// the others must agree with it.
Findings verify_buffer(const Program& p, BufferId id, const Buffer& first) {
  const Buffer& f = p.buffer(id);
  const BufferKind& k = p.kind(f.kind);
  Findings findings;
  const auto say = [&](const std::string& text) {
    findings.push_back(fmt::format("buffer @{} {}: {}", id, k.name, text));
  };
  const auto look = [&](const char* what, int64_t label, bool several, bool otherwise) {
    if (!is_label(label))
      say(fmt::format("is of {} {}, expected 0 to {}", what, label, kMostLabel));
    else if ((label != kNone) != several && !otherwise)
      say(fmt::format("{} a {}, its kind {}", label != kNone ? "has" : "lacks", what,
                      several ? "has one for each" : "has one for all"));
  };
  look("layer", f.layer, (k.indexed_by & kPerLayer) != 0,
       !f.state && f.layer == kNone && first.layer == kNone);
  look("micro-batch", f.microbatch, (k.indexed_by & kPerMicrobatch) != 0,
       !f.state && f.microbatch != kNone);
  if ((f.microbatch == kNone) != (first.microbatch == kNone))
    say(fmt::format("{} a micro-batch, the first buffer of its kind {}",
                    f.microbatch == kNone ? "lacks" : "has",
                    f.microbatch == kNone ? "has one" : "has none"));
  if (f.offset != kNone && !is_size(f.offset))
    say(fmt::format("begins at byte {}, expected 0 to {}", f.offset, kMostBytes));
  if (f.state != k.state)
    say(fmt::format("{} state, its kind {}", f.state ? "is" : "is not", k.state ? "is" : "is not"));
  return findings;
}

// Verifies that the buffers that the host writes are those of micro-batches 0, 1, ….
Findings verify_batches(const Program& p) {
  IdVector<BufferKindId, std::set<int64_t>> found(p.kinds.size());
  IdVector<BufferKindId, int64_t> buffers(p.kinds.size(), 0);
  for (const Buffer& f : p.buffers) {
    if (!f.state || (p.kind(f.kind).indexed_by & kPerMicrobatch) == 0) continue;
    found[f.kind].insert(f.microbatch);
    ++buffers[f.kind];
  }
  Findings findings;
  for (const BufferKindId k : p.kinds.ids())
    if (buffers[k] > 0 && (std::ssize(found[k]) != buffers[k] || *found[k].begin() != 0 ||
                           *found[k].rbegin() != buffers[k] - 1))
      findings.push_back(
          fmt::format("{}: its {} buffers are of the micro-batches {}, expected 0 to {}",
                      p.kind(k).name, buffers[k], fmt::join(found[k], ","), buffers[k] - 1));
  return findings;
}

Findings verify_call(const Program& p, CallId id) {
  const Call& c = p.call(id);
  Findings findings;
  const auto say = [&](const std::string& text) {
    findings.push_back(fmt::format("call {}: {}", call_name(p, id), text));
  };
  if (!is_label(c.layer) || !is_label(c.microbatch))
    say(fmt::format("layers and micro-batches are numbered 0 to {}", kMostLabel));
  if (!is_size(c.comm.bytes)) say(size_text("its wire", c.comm.bytes));
  if (c.comm.peer != kNone && !are_stages({c.comm.peer}, p.mesh))
    say(fmt::format("its peer is stage {} of {}", c.comm.peer, p.mesh[AxisKind::kPipeline]));
  return findings;
}

}  // namespace

Findings verify_values(ValueSpan values, const Mesh& mesh) {
  Findings findings;
  for (const Value& v : values) append(findings, verify_value(v, mesh));
  if (findings.empty()) append(findings, verify_wholes(values));
  for (const Value& v : values)
    if (findings.empty() && !v.clips.empty()) append(findings, verify_clips(v, values));
  return findings;
}

Findings verify_numbers(const Program& p) {
  Findings findings = verify_program(p);
  if (!findings.empty()) return findings;
  append(findings, verify_values(p.values, p.mesh));
  for (const BufferKind& k : p.kinds) append(findings, verify_kind(p, k));
  for (const Segment& s : p.segments) append(findings, verify_segment(p, s));
  IdVector<BufferKindId, BufferId> first(p.kinds.size());
  for (const BufferId f : p.buffers.ids()) {
    BufferId& of_kind = first[p.buffer(f).kind];
    if (of_kind == kNone) of_kind = f;
    append(findings, verify_buffer(p, f, p.buffer(of_kind)));
  }
  append(findings, verify_batches(p));
  for (const CallId c : p.schedule.ids()) append(findings, verify_call(p, c));
  return findings;
}

}  // namespace tessera
