// Programs made by hand, op by op, for the executor.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "compile/lower/scratch.h"
#include "compile/memory/assign_buffers.h"
#include "ir/program.h"
#include "ir/target.h"

namespace tessera::testing {

class SmallProgram {
 public:
  SmallProgram(std::string name, const Mesh& mesh, const Coordinates& at) {
    p_.name = std::move(name);
    p_.mesh = mesh;
    p_.stage = at[AxisKind::kPipeline];
  }

  // A value in a buffer of its own, of that name; `split` puts dimension 0 on that axis.
  ValueId value(const std::string& name, Shape shape, Role role, bool state = false,
                AxisKind split = AxisKind::kPipeline, DType type = DType::kF32) {
    Value v = make(name, type, std::move(shape), role);
    if (split != AxisKind::kPipeline) {
      v.sharding.place[split] = 0;
      localise(v, p_.mesh);
    }
    v.buffer = p_.kinds.next_id();
    v.offset = 0;
    BufferKind k;
    k.name = name;
    k.bytes = (v.bytes() + 63) / 64 * 64;
    k.state = state;
    k.values = {p_.values.next_id()};
    p_.kinds.push_back(k);
    p_.values.push_back(std::move(v));
    return k.values[0];
  }
  // Inside one segment.
  ValueId scratch(const std::string& name, Shape shape, DType type = DType::kF32) {
    return p_.values.push_back(make(name, type, std::move(shape), Role::kScratch));
  }
  Value& operator[](ValueId v) { return p_.values[v]; }

  static Op op(OpAttributes attributes, std::vector<ValueId> in, std::vector<ValueId> out) {
    Op o;
    o.inputs = std::move(in);
    o.outputs = std::move(out);
    o.attributes = std::move(attributes);
    return o;
  }

  struct Use {
    ValueId value;
    Access access;
    int64_t life = kNone;  // buffers of one value and life are one; state has one
  };
  void call(const std::string& name, Queue queue, std::vector<Op> ops, const std::vector<Use>& uses,
            CommSpec wire = {}) {
    if (!segments_.contains(name)) {
      Segment s;
      s.set_name(name);
      s.queue = queue;
      s.ops = std::move(ops);
      for (Op& o : s.ops) o.origin = name + "." + std::to_string(&o - s.ops.data());
      for (const Use& u : uses) s.buffers.push_back({p_[u.value].buffer, u.access});
      segments_[name] = p_.segments.push_back(std::move(s));
    }
    Call c;
    c.segment = segments_.at(name);
    c.comm = std::move(wire);
    for (const Use& u : uses) c.buffers.push_back(buffer(u));
    p_.schedule.push_back(std::move(c));
  }

  // Lays out workspaces, scratch, buffers.
  Program finish(const Target& target) {
    ValueVector local = p_.values;
    for (Value& v : local) v.shape = v.local();
    for (Segment& s : p_.segments) {
      for (Op& o : s.ops) {
        const int64_t bytes = target.workspace_bytes(o, local);
        if (bytes > 0) o.workspace = scratch(o.origin + ".workspace", Shape{bytes}, DType::kU8);
      }
      compile::layout_scratch(p_, s, target.alignment);
    }
    compile::assign_buffers(p_, {.alignment = target.alignment, .pad = 1});
    return std::move(p_);
  }

 private:
  static Value make(const std::string& name, DType type, Shape shape, Role role) {
    Value v;
    v.name = name;
    v.dtype = type;
    v.shape = std::move(shape);
    v.role = role;
    return v;
  }
  BufferId buffer(const Use& u) {
    const BufferKindId kind = p_[u.value].buffer;
    const auto key = std::tuple(kind, u.life);
    if (buffers_.contains(key)) return buffers_.at(key);
    Buffer f;
    f.kind = kind;
    f.layer = u.life;
    f.state = p_.kind(kind).state;
    if (f.state) {
      f.offset = p_.state_bytes;
      p_.state_bytes += p_.kind(kind).bytes;
    }
    return buffers_[key] = p_.buffers.push_back(f);
  }

  Program p_;
  std::map<std::string, SegmentId> segments_;
  std::map<std::tuple<BufferKindId, int64_t>, BufferId> buffers_;
};

}  // namespace tessera::testing
