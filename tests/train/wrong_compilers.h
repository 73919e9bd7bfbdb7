// Compilers that go wrong: rewrites of the programs of all stages, the same on every rank, each
// with the names of values that show it first.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/rule.h"
#include "runtime/communicator_map.h"

namespace tessera::testing {

struct Fault {
  std::string what;                // "drop matmul of layer.attn.qkv in forward.layer"
  std::set<std::string> shows_in;  // names of values and weights, without numbers of layers
};

class WrongCompiler {
 public:
  explicit WrongCompiler(uint64_t seed) : random_(seed) {}

  // Rewrites `stages`; an empty `what` where the draw did not fit.
  Fault rewrite(std::vector<Program>& stages) {
    switch (number(0, 6)) {
      case 0:
        return at_op(stages, "drop", [](Segment& s, size_t o) {
          s.ops.erase(s.ops.begin() + static_cast<int64_t>(o));
        });
      case 1:
        return at_op(stages, "double", [](Segment& s, size_t o) { add_twice(s, o); });
      case 2:
        return at_op(stages, "repeat", [](Segment& s, size_t o) {
          s.ops.insert(s.ops.begin() + static_cast<int64_t>(o), s.ops[o]);
        });
      case 3:
        return other_group(stages);
      case 4:
        return drop_call(stages, "");
      case 5:
        return other_microbatch(stages);
      default:
        return other_layer(stages);
    }
  }

  // The calls of a segment whose name begins so, or of any that gathers, reduces or updates, do
  // nothing.
  Fault drop_call(std::vector<Program>& stages, const std::string& wanted) {
    std::vector<std::string> names;
    for (const Program& p : stages)
      for (const Segment& s : p.segments)
        if (wanted.empty() ? s.queue != Queue::kCompute && keeps(s) : s.name() == wanted)
          names.push_back(s.name());
    if (names.empty()) return {};
    const std::string name = pick(names);
    for (Program& p : stages)
      for (Segment& s : p.segments)
        if (s.name() == name) s.ops.clear();
    Fault f{"drop the calls of " + name, {}};
    const std::string group = name.substr(name.find('.') + 1);
    for (const Program& p : stages)
      for (const BufferKind& k : p.kinds)
        if (k.name == group + ".weights")
          for (const ValueId v : k.values) f.shows_in.insert(p[v].name);
    if (f.shows_in.empty()) f.shows_in.insert("");
    return f;
  }

  // Weights that are divided over one axis are taken for divided over another.
  Fault other_offset(std::vector<Program>& stages, const std::string& weight) {
    using enum AxisKind;
    for (Program& p : stages)
      for (Value& v : p.values)
        if (v.name == weight) std::swap(v.sharding.place[kShard], v.sharding.place[kTensor]);
    return {"another offset of " + weight, {weight}};
  }

  // Every dropout has another key.
  static Fault other_key(std::vector<Program>& stages) {
    Fault f{"another key", {}};
    for (Program& p : stages)
      for (Segment& s : p.segments)
        for (Op& op : s.ops)
          if (Dropout* const dropout = op.if_as<Dropout>()) {
            ++dropout->key;
            show(p, op, f);
          }
    return f;
  }

  Fault other_microbatch(std::vector<Program>& stages) {
    return other_buffer(stages, [](const Program& p, const Buffer& a, const Buffer& b) {
      return p.kind(a.kind).indexed_by == kPerMicrobatch && b.state && a.microbatch != b.microbatch;
    });
  }
  Fault other_layer(std::vector<Program>& stages) {
    return other_buffer(stages, [](const Program& p, const Buffer& a, const Buffer& b) {
      return p[p.kind(a.kind).values[0]].role == Role::kWeight && b.state && a.layer != b.layer;
    });
  }

  // The sum is added to what is there once more.
  static void add_twice(Segment& s, size_t o) {
    Op twice;
    const ValueId v = s.ops[o].outputs[0];
    twice.attributes = Sum{.terms = 2};
    twice.inputs = {v, v};
    twice.outputs = {v};
    twice.origin = s.ops[o].origin;
    s.ops.insert(s.ops.begin() + static_cast<int64_t>(o) + 1, twice);
  }

  static std::string without_numbers(std::string s) {
    s.erase(std::remove_if(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; }),
            s.end());
    return s;
  }

  // Names that show an op's result: its own outputs, and those of ops that read them.
  static void show(const Program& p, const Op& op, Fault& f) {
    const auto add = [&](ValueId v) {
      if (v == kNone) return;
      std::string name = p[v].name;
      if (p[v].role == Role::kReport) name = "";
      if (p[v].role == Role::kHidden || p[v].role == Role::kHiddenGradient)
        f.shows_in.insert("~hidden");
      if (p[v].role == Role::kGradient) name = name.substr(0, name.rfind(".gradient"));
      for (const BufferKind& k : p.kinds)  // a flat value stands for its members
        if (p[v].name.starts_with(k.name.substr(0, k.name.rfind('.')) + ".") && k.like == kNone &&
            k.name.ends_with(".weights") &&
            (p[v].name.ends_with(".flat") || p[v].name.ends_with(".own")))
          for (const ValueId w : k.values) f.shows_in.insert(without_numbers(p[w].name));
      f.shows_in.insert(without_numbers(name));
    };
    for (const ValueId v : op.outputs) {
      add(v);
      for (const Segment& s : p.segments)
        for (const Op& reader : s.ops)
          if (std::count(reader.inputs.begin(), reader.inputs.end(), v))
            for (const ValueId w : reader.outputs) add(w);
    }
  }

 private:
  int64_t number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(number(0, static_cast<int64_t>(list.size()) - 1))];
  }
  template <class I, class T>
  const T& pick(const IdVector<I, T>& list) {
    return list[I(number(0, static_cast<int64_t>(list.size()) - 1))];
  }
  static bool keeps(const Segment& s) {
    return s.phase == Phase::kGather || s.phase == Phase::kReduce || s.phase == Phase::kFinish ||
           s.phase == Phase::kJoin || s.phase == Phase::kSumReport;
  }

  // Stages share their segments by name: the fault is in all that have the op.
  Fault at_op(std::vector<Program>& stages, const std::string& what,
              const std::function<void(Segment&, size_t)>& change) {
    const Program& drawn = pick(stages);
    const Segment& segment = pick(drawn.segments);
    if (segment.ops.empty()) return {};
    const auto o = static_cast<size_t>(number(0, static_cast<int64_t>(segment.ops.size()) - 1));
    const Op op = segment.ops[o];
    const DType type = drawn[op.outputs.empty() ? op.inputs[0] : op.outputs[0]].dtype;
    if (op.outputs.empty() || is_message(op) || (what == "double" && type != DType::kF32))
      return {};
    // Once more over what is there already adds nothing.
    if (what == "repeat" && drawn[op.outputs[0]].role != Role::kGradient) return {};
    Fault f{fmt::format("{} {} of {} in {}", what, name_of(op.kind()), op.origin, segment.name()),
            {}};
    show(drawn, op, f);
    const std::string name = segment.name();
    for (Program& p : stages)
      for (Segment& s : p.segments)
        if (s.name() == name && s.ops.size() > o && s.ops[o].kind() == op.kind()) change(s, o);
    return f;
  }

  Fault other_group(std::vector<Program>& stages) {
    const Mesh& mesh = stages[0].mesh;
    if (mesh[AxisKind::kShard] != mesh[AxisKind::kTensor] || mesh[AxisKind::kShard] == 1) return {};
    const GroupRef tensor = GroupRef::along({AxisKind::kTensor});
    const GroupRef shard = GroupRef::along({AxisKind::kShard});
    std::vector<std::pair<std::string, size_t>> places;
    for (const Segment& s : stages[0].segments)
      for (size_t o = 0; o < s.ops.size(); ++o) {
        const GroupRef* const over = over_of(s.ops[o].attributes);
        if (over == nullptr) continue;
        if (*over == tensor || *over == shard) places.emplace_back(s.name(), o);
      }
    if (places.empty()) return {};
    const auto [name, o] = pick(places);
    Fault f;
    for (Program& p : stages)
      for (Segment& s : p.segments) {
        if (s.name() != name) continue;
        Op& op = s.ops[o];
        f.what =
            fmt::format("the other group in {} of {} in {}", name_of(op.kind()), op.origin, name);
        GroupRef& over = *over_of(op.attributes);
        over = over == shard ? tensor : shard;
        show(p, op, f);
      }
    return f;
  }

  // One call of each stage has another buffer of the same kind.
  Fault other_buffer(
      std::vector<Program>& stages,
      const std::function<bool(const Program&, const Buffer&, const Buffer&)>& fits) {
    Fault f;
    const int64_t stage = number(0, static_cast<int64_t>(stages.size()) - 1);
    Program& p = stages[static_cast<size_t>(stage)];
    struct Swap {
      CallId call;
      size_t parameter;
      BufferId buffer;
    };
    std::vector<Swap> swaps;
    for (const CallId c : p.schedule.ids())
      for (size_t i = 0; i < p.schedule[c].buffers.size(); ++i)
        for (const BufferId other : p.buffers.ids()) {
          const Buffer& own = p.buffer(p.schedule[c].buffers[i]);
          const Segment& s = p.segment(p.schedule[c]);
          if (own.kind == p.buffer(other).kind && s.buffers[i].access == Access::kRead &&
              fits(p, own, p.buffer(other)))
            swaps.push_back({c, i, other});
        }
    if (swaps.empty()) return {};
    const Swap s = pick(swaps);
    Call& c = p.schedule[s.call];
    const BufferKind& kind = p.kind(p.buffer(s.buffer).kind);
    f.what = fmt::format("{} of another call in {}", kind.name, call_name(p, s.call));
    for (const Op& op : p.segment(c).ops)
      for (const ValueId v : op.inputs)
        if (v != kNone && p[v].buffer == p.buffer(s.buffer).kind) {
          show(p, op, f);
          f.shows_in.insert(without_numbers(p[v].name));
        }
    c.buffers[s.parameter] = s.buffer;
    return f;
  }

  std::mt19937_64 random_;
};

}  // namespace tessera::testing
