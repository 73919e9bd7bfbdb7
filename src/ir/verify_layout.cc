// Verifies the buffers, segments and calls of a program: offsets, lifetimes, operands.
//
// Everything here is a statement about byte ranges, checked against the program as it is and not
// against the pass that made it. A buffer kind is a list of members without overlap or gap
// (verify_gaps: a gap would be memory without a use). A kind that is "like" another (gradients,
// moments) has its members at the same elements, so one flat op can read both. A value outside the
// kinds is in scratch, where two values may share bytes only if their lifetimes do not overlap or
// if an op works in place. Pairs of members are compared directly: kinds have at most some hundred
// members, so O(n²) is fast enough.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/moment_code.h"
#include "ir/names.h"
#include "ir/rule.h"
#include "ir/verify.h"

namespace tessera {
namespace {

using Findings = std::vector<std::string>;

bool share_bytes(const Value& a, const Value& b) {
  return a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
}
bool same_bytes(const Value& a, const Value& b) {
  return a.offset == b.offset && a.bytes() == b.bytes();
}

bool is_aligned(const Value& v) { return v.offset % kByteAlignment == 0; }
// Sizes are rounded up to the target's alignment and to units of 64 elements for each shard.
int64_t most_padding(const Value& v, int64_t shards) {
  return kScratchAlignment + shards * 64 * size_of(v.dtype);
}

// Members follow each other in order, with only padding between them and at the end.
Findings verify_gaps(const Program& p, BufferKindId kind) {
  const BufferKind& k = p.kind(kind);
  int64_t end = 0, most = 1;  // the first is at 0
  Findings findings;
  const auto look = [&](const std::string& what, int64_t at) {
    if (at - end >= most)
      findings.push_back(fmt::format("{}: {} is at byte {}, {} after the value before it", k.name,
                                     what, at, at - end));
  };
  for (const ValueId id : k.values) {
    const Value& v = p[id];
    look(v.name, v.offset);
    end = v.offset + v.bytes();
    most = most_padding(v, 1);
  }
  // A layer's output in a stream has the size of the next layer's input, whose values may be
  // smaller.
  const bool is_read = std::any_of(p.kinds.begin(), p.kinds.end(),
                                   [&](const BufferKind& other) { return other.input == kind; });
  if (k.values.empty() || is_read) return findings;
  most = most_padding(p[k.values.back()], state_shards(p.mesh));
  look("its end", k.bytes);
  return findings;
}

// A kind with `like` has the same elements as that kind of weights: its members, if there is one
// per weight, are at the same elements. Scales are one per block of elements.
Findings verify_like(const Program& p, BufferKindId kind) {
  const BufferKind& k = p.kind(kind);
  const BufferKind& like = p.kind(k.like);
  if (k.values.empty() || like.values.empty()) return {};
  const auto element = [&](ValueId v) { return p[v].offset / size_of(p[v].dtype); };
  const auto elements = [&](const BufferKind& of) {
    return of.bytes / size_of(p[of.values[0]].dtype);
  };
  const int64_t block = is_moment_scale(p[k.values[0]].role) ? kMomentBlock : 1;
  const bool flat = k.values.size() == 1 && p[k.values[0]].shape == Shape{elements(like) / block};
  if (flat) return verify_gaps(p, kind);
  bool same = k.values.size() == like.values.size() && elements(k) == elements(like);
  for (size_t i = 0; same && i < k.values.size(); ++i)
    same = element(k.values[i]) == element(like.values[i]) &&
           p[k.values[i]].shape == p[like.values[i]].shape;
  if (same) return {};
  return {fmt::format("{}: its {} values are not the elements of {}", k.name, k.values.size(),
                      like.name)};
}

// The members of a kind do not overlap, or are all at one offset, as in hidden states, which are
// one value per block.
Findings verify_kind(const Program& p, BufferKindId id) {
  const BufferKind& k = p.kind(id);
  Findings findings;
  for (size_t i = 0; i < k.values.size(); ++i) {
    const Value& v = p[k.values[i]];
    if (v.buffer != id)
      findings.push_back(fmt::format("{}: {} is not in this buffer kind", k.name, v.name));
    if (v.offset < 0 || v.offset + v.bytes() > k.bytes)
      findings.push_back(fmt::format("{}: {} of {} bytes at {} does not fit in {} bytes", k.name,
                                     v.name, v.bytes(), v.offset, k.bytes));
    if (!is_aligned(v))
      findings.push_back(fmt::format("{}: {} begins at byte {}, expected a multiple of {}", k.name,
                                     v.name, v.offset, kByteAlignment));
    for (size_t j = 0; j < i; ++j) {
      const Value& other = p[k.values[j]];
      if (share_bytes(v, other) && !same_bytes(v, p[k.values[0]]))
        findings.push_back(fmt::format("{}: {} and {} overlap", k.name, other.name, v.name));
    }
  }
  if (k.bytes % kByteAlignment != 0)
    findings.push_back(fmt::format("{}: has {} bytes, expected a multiple of {}", k.name, k.bytes,
                                   kByteAlignment));
  if (k.input != kNone && k.bytes != p.kind(k.input).bytes)
    findings.push_back(fmt::format("{}: has {} bytes, {} has {}", k.name, k.bytes,
                                   p.kind(k.input).name, p.kind(k.input).bytes));
  append(findings, k.like == kNone ? verify_gaps(p, id) : verify_like(p, id));
  return findings;
}

// A value in a buffer is a member of its kind, is computed in place over a member, or is the whole
// buffer as one row of elements, or this rank's shard of that row.
Findings verify_membership(const Program& p, const Value& v) {
  if (v.buffer == kNone || v.is_local_shard) return {};
  const BufferKind& k = p.kind(v.buffer);
  const bool flat = v.offset == 0 && v.shape.rank() == 1 && v.bytes() == k.bytes;
  const bool member = std::any_of(k.values.begin(), k.values.end(),
                                  [&](ValueId other) { return same_bytes(v, p[other]); });
  if (flat || member) return {};
  return {fmt::format("{}: its bytes {} to {} of {} belong to no member of that kind", v.name,
                      v.offset, v.offset + v.bytes(), k.name)};
}

// How a segment's ops use one kind of buffer.
struct Use {
  bool reads = false, writes = false, adds = false;
  std::vector<ValueId> made;  // the values that it writes or adds to

  Access needed() const {
    const int kinds = int{reads} + int{writes} + int{adds};
    if (kinds > 1) return Access::kUpdate;
    return writes ? Access::kWrite : (adds ? Access::kAdd : Access::kRead);
  }
};

// Verifies one segment: its parameters against its ops, and the offsets of its values.
class SegmentVerifier {
 public:
  SegmentVerifier(const Program& p, const Segment& s) : p_(p), s_(s), name_(s.name()) {}

  Findings run() {
    for (size_t i = 0; i < s_.ops.size(); ++i) read_op(i);
    verify_parameters();
    verify_places();
    return std::move(findings_);
  }

 private:
  // From the op that writes a value, or the start, to the last that uses it, or the end.
  struct Lifetime {
    int64_t first, last;
  };

  std::string name(const Op& op) const {
    return fmt::format("{} {} ({})", name_, op.origin, name_of(op.kind()));
  }
  // Returns true for a buffer as one row of elements, or this rank's shard of it.
  bool is_flat(ValueId v) const {
    if (p_[v].buffer == kNone || p_[v].offset != 0 || p_[v].shape.rank() != 1) return false;
    return p_[v].is_local_shard || p_[v].bytes() == p_.kind(p_[v].buffer).bytes;
  }
  bool is_member(ValueId v) const {
    if (p_[v].buffer == kNone) return false;
    if (is_flat(v)) return true;
    const auto& values = p_.kind(p_[v].buffer).values;
    return std::find(values.begin(), values.end(), v) != values.end();
  }

  // A read extends the lifetime of a value. A value that no op of the segment wrote must be a
  // member of a parameter's buffer, which is then read.
  void read(int64_t i, ValueId v) {
    const Op& op = s_.ops[i];
    const bool here = lives_.contains(v);
    Lifetime& life = lives_.try_emplace(v, Lifetime{0, 0}).first->second;
    if (life.last < i) life.last = i;
    if (here && made_.contains(v)) return;
    if (is_member(v))
      uses_[p_[v].buffer].reads = true;
    else
      findings_.push_back(
          fmt::format("{}: reads {}, which nothing before it made", name(op), p_[v].name));
  }

  // A value in a buffer is added to if it is a sum, else written. The use of each kind is collected
  // here and compared with the access of the parameter at the end.
  void make(int64_t i, ValueId v) {
    const Op& op = s_.ops[i];
    const auto [life, first] = lives_.try_emplace(v, Lifetime{i, i});
    life->second.last = std::max(life->second.last, i);
    if (p_[v].buffer != kNone) {
      Use& use = uses_[p_[v].buffer];
      const Role r = p_[v].role;
      const bool adds = is_of_step(r) || (r == Role::kReport && rule_of(op).effects.adds_to_report);
      (adds ? use.adds : use.writes) = true;
      if (changes_state(op, r)) use.reads = true;
      use.made.push_back(v);
      if (!adds && !first && made_.contains(v) && !rule_of(op).effects.updates_weights &&
          op.chunk.is_whole())
        findings_.push_back(fmt::format("{}: makes {} a second time", name(op), p_[v].name));
    }
    made_.insert(v);
  }

  void read_op(int64_t i) {
    const Op& op = s_.ops[i];
    for (const ValueId v : op.inputs) read(i, v);
    if (op.packed != kNone) read(i, op.packed);
    if (op.workspace != kNone) {
      const Value& w = p_[op.workspace];
      const bool alone =
          lives_.try_emplace(op.workspace, Lifetime{i, i}).second &&
          std::find(op.outputs.begin(), op.outputs.end(), op.workspace) == op.outputs.end();
      if (!alone || w.buffer != kNone || w.dtype != DType::kU8)
        findings_.push_back(
            fmt::format("{}: its workspace {} is not a part of the scratch that only this op uses",
                        name(op), w.name));
    }
    for (const ValueId v : op.outputs) make(i, v);
  }

  void verify_parameters() {
    std::set<BufferKindId> taken;
    for (const Parameter& x : s_.buffers) {
      const std::string& kind = p_.kind(x.kind).name;
      if (!taken.insert(x.kind).second)
        findings_.push_back(fmt::format("{}: has the parameter {} twice", name_, kind));
      // A segment without ops may only mark the end of a lifetime.
      if (s_.ops.empty() && x.access == Access::kRead) continue;
      if (!uses_.contains(x.kind)) {
        findings_.push_back(
            fmt::format("{}: has the parameter {}, which none of its ops uses", name_, kind));
        continue;
      }
      const Access needed = uses_[x.kind].needed();
      if (x.access != needed)
        findings_.push_back(fmt::format("{}: declares access {} of {}, its ops need {}", name_,
                                        name_of(x.access), kind, name_of(needed)));
      else if (needed == Access::kWrite || needed == Access::kAdd)
        verify_covers(x.kind);
    }
    for (const auto& [kind, use] : uses_)
      if (!taken.contains(kind))
        findings_.push_back(
            fmt::format("{}: its ops use {}, which is not a parameter", name_, p_.kind(kind).name));
  }

  // A buffer is written as a whole, also by a first write, so every part of it must be written.
  void verify_covers(BufferKindId kind) {
    for (const ValueId member : p_.kind(kind).values) {
      if (p_[member].role == Role::kReport) continue;
      const auto& made = uses_[kind].made;
      if (std::any_of(made.begin(), made.end(),
                      [&](ValueId v) { return is_flat(v) || same_bytes(p_[v], p_[member]); }))
        continue;
      findings_.push_back(fmt::format("{}: writes {} but not its member {}", name_,
                                      p_.kind(kind).name, p_[member].name));
    }
  }

  // Members of a buffer exist before the segment if it reads them, and after it in any case.
  Lifetime whole_life(ValueId v, Lifetime life) const {
    if (!is_member(v)) return life;
    if (!made_.contains(v)) life.first = 0;
    if (is_of_step(p_[v].role) || p_[v].role == Role::kReport) life.first = 0;
    life.last = std::ssize(s_.ops);
    return life;
  }

  bool works_in_place(ValueId in, ValueId out, int64_t at) const {
    if (at < 0 || at >= std::ssize(s_.ops)) return false;
    const Op& op = s_.ops[at];
    const InPlace k = in_place_of(op);
    return k.input >= 0 && op.inputs[k.input] == in && op.outputs[k.output] == out &&
           same_bytes(p_[in], p_[out]);
  }

  // Values of one buffer (or of the scratch) are compared pair by pair: two that share bytes must
  // not be alive at the same time, unless an op computes one from the other in place. Scratch must
  // be as large as its values need, and no larger.
  void verify_places() {
    std::map<BufferKindId, std::vector<std::pair<ValueId, Lifetime>>> by_buffer;
    int64_t used = 0;
    for (const auto& [v, life] : lives_) {
      by_buffer[p_[v].buffer].emplace_back(v, whole_life(v, life));
      const int64_t bytes = p_[v].buffer == kNone ? s_.scratch_bytes : p_.kind(p_[v].buffer).bytes;
      if (p_[v].offset < 0 || p_[v].offset + p_[v].bytes() > bytes)
        findings_.push_back(
            fmt::format("{}: {} of {} bytes at {} does not fit in the {} bytes of {}", name_,
                        p_[v].name, p_[v].bytes(), p_[v].offset, bytes, place_name(p_[v].buffer)));
      if (!is_aligned(p_[v]))
        findings_.push_back(fmt::format("{}: {} begins at byte {}, expected a multiple of {}",
                                        name_, p_[v].name, p_[v].offset, kByteAlignment));
      if (p_[v].buffer == kNone) used = std::max(used, p_[v].offset + p_[v].bytes());
    }
    const int64_t padding = s_.scratch_bytes - used;
    if (!s_.ops.empty() && (padding >= kScratchAlignment || s_.scratch_bytes % kByteAlignment != 0))
      findings_.push_back(
          fmt::format("{}: has {} bytes of scratch, expected {} rounded up to a multiple of {}",
                      name_, s_.scratch_bytes, used, kByteAlignment));
    for (const auto& [buffer, values] : by_buffer)
      for (size_t i = 0; i < values.size(); ++i)
        for (size_t j = 0; j < i; ++j) verify_pair(values[i], values[j]);
  }

  std::string place_name(BufferKindId buffer) const {
    return buffer == kNone ? "its scratch" : p_.kind(buffer).name;
  }

  void verify_pair(const std::pair<ValueId, Lifetime>& a, const std::pair<ValueId, Lifetime>& b) {
    const auto& [va, la] = a;
    const auto& [vb, lb] = b;
    if (is_flat(va) && is_flat(vb)) return;  // this rank's shard and the whole of a collective
    if (!share_bytes(p_[va], p_[vb]) || la.first > lb.last || lb.first > la.last) return;
    if (la.last == lb.first && works_in_place(va, vb, la.last)) return;
    if (lb.last == la.first && works_in_place(vb, va, lb.last)) return;
    findings_.push_back(
        fmt::format("{}: {} and {} have overlapping lifetimes and share bytes of {}", name_,
                    p_[va].name, p_[vb].name, place_name(p_[va].buffer)));
  }

  const Program& p_;
  const Segment& s_;
  std::string name_;
  std::map<ValueId, Lifetime> lives_;
  std::set<ValueId> made_;
  std::map<BufferKindId, Use> uses_;
  Findings findings_;
};

// Returns the kind that the next layer reads a layer's output as: one buffer has two kinds.
BufferKindId read_as(const Program& p, BufferKindId kind) {
  const BufferKindId input = p.kind(kind).input;
  return input ? input : kind;
}

Findings verify_call(const Program& p, CallId id) {
  const Call& c = p.call(id);
  const Segment& s = p.segment(c);
  const std::string name = "call " + call_name(p, id);
  if (c.buffers.size() != s.buffers.size())
    return {fmt::format("{}: has {} buffers, its segment has {} parameters", name, c.buffers.size(),
                        s.buffers.size())};
  Findings findings;
  if (!c.first_write.empty() && c.first_write.size() != c.buffers.size())
    findings.push_back(
        fmt::format("{}: has {} flags for first writes, expected one per buffer ({})", name,
                    c.first_write.size(), c.buffers.size()));
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    const BufferKindId expected = s.buffers[i].kind, found = p.buffer(c.buffers[i]).kind;
    if (expected == found) continue;
    if (read_as(p, expected) != read_as(p, found) || p.kind(expected).bytes != p.kind(found).bytes)
      findings.push_back(fmt::format("{}: buffer {} is of kind {}, its segment expects {}", name, i,
                                     p.kind(found).name, p.kind(expected).name));
  }
  return findings;
}

}  // namespace

std::vector<std::string> verify_layout(const Program& p) {
  Findings findings;
  for (const BufferKindId k : p.kinds.ids()) append(findings, verify_kind(p, k));
  for (const Value& v : p.values) append(findings, verify_membership(p, v));
  for (const Segment& s : p.segments) {
    append(findings, SegmentVerifier(p, s).run());
    append(findings, verify_races(p, s));
  }
  return findings;
}

std::vector<std::string> verify_buffers_of_calls(const Program& p) {
  Findings findings;
  for (const CallId c : p.schedule.ids()) append(findings, verify_call(p, c));
  return findings;
}

}  // namespace tessera
