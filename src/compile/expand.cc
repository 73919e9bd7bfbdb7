#include "compile/expand.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "compile/rewrite.h"
#include "compile/scratch.h"
#include "ir/builder.h"

namespace tessera {
namespace {

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Flat state is cut into pieces of 64 elements (ZeRO's unit), so its members start on such.
constexpr int64_t kUnitElements = 64;

class Expander {
 public:
  Expander(Graph graph, const CompileRequest& request, const Recompute& recompute,
           const Target& target)
      : g_(std::move(graph)), request_(request), recompute_(recompute), target_(target) {}

  Expanded run();

 private:
  bool trains() const { return request_.purpose == Purpose::kTrain; }
  std::string group_of(ValueId weight) const;
  void group_weights();
  void state_frames();
  void batch_frames();
  void stream_frames();
  void saved_frames();
  FrameKindId frame(const std::string& name, const std::vector<ValueId>& values, uint8_t per,
                    bool state);
  ValueId twin(ValueId weight, const std::string& suffix, Role role, DType type);
  void prepare_products();
  void pack_segments();
  void weight_segments(GroupSegments& group, const std::vector<ValueId>& weights);
  void block_segments(const Block& block, BlockSegments& out);
  ValueId only(Role role, const std::string& name) const;
  SegmentId segment(const std::string& name, std::vector<Op> ops);
  void ask_target(const std::string& block, std::vector<Op>& ops);
  void pack_weight(const std::string& block, Op& op);
  Access access_of(const Segment& s, FrameKindId kind) const;
  std::vector<Op> clone_scratch(std::vector<Op> ops, bool keep_frames);
  void keep_saved(std::vector<Op>& ops, ValueId output) const;

  Graph g_;
  const CompileRequest& request_;
  const Recompute& recompute_;
  const Target& target_;
  Expanded out_;
  std::vector<std::pair<std::string, std::vector<ValueId>>> groups_;  // weights, in order
  std::map<ValueId, std::map<std::string, ValueId>> twins_;           // weight → its state
  std::map<std::string, std::vector<std::pair<Op, ValueId>>> packs_;  // block → pack ops
  std::map<std::pair<ValueId, OpKind>, ValueId> packed_;
};

// A weight that several blocks use is a group of its own: its gradient is complete only when all
// of them have added to it.
std::string Expander::group_of(ValueId weight) const {
  std::string owner;
  for (const Block& b : g_.blocks) {
    if (readers(b.forward, weight) + readers(b.backward, weight) == 0) continue;
    if (!owner.empty()) return "shared";
    owner = b.name;
  }
  return owner;
}

void Expander::group_weights() {
  for (size_t i = 0; i < g_.values.size(); ++i) {
    if (g_.values[i].role != Role::kWeight) continue;
    const std::string name = group_of(static_cast<ValueId>(i));
    CHECK(!name.empty(), "weight {} is used by no block", g_.values[i].name);
    auto at = std::find_if(groups_.begin(), groups_.end(),
                           [&](const auto& group) { return group.first == name; });
    if (at == groups_.end()) at = groups_.insert(groups_.end(), {name, {}});
    at->second.push_back(static_cast<ValueId>(i));
  }
}

FrameKindId Expander::frame(const std::string& name, const std::vector<ValueId>& values,
                            uint8_t per, bool state) {
  FrameKind kind;
  kind.name = name;
  kind.values = values;
  kind.per = per;
  kind.state = state;
  const auto id = static_cast<FrameKindId>(out_.program.kinds.size());
  for (const ValueId v : values) {
    g_[v].frame = id;
    g_[v].offset = kind.bytes;
    const int64_t unit = std::max(target_.alignment, kUnitElements * size_of(g_[v].dtype));
    kind.bytes = align(kind.bytes + g_[v].bytes(), unit);
  }
  out_.program.kinds.push_back(std::move(kind));
  return id;
}

ValueId Expander::twin(ValueId weight, const std::string& suffix, Role role, DType type) {
  Value v = g_[weight];
  v.name += "." + suffix;
  v.role = role;
  v.dtype = type;
  g_.values.push_back(std::move(v));
  const auto id = static_cast<ValueId>(g_.values.size() - 1);
  twins_[weight][suffix] = id;
  return id;
}

// Weights, then what the optimizer keeps of them, group by group: the same offsets in every
// program of a run. Gradients live within a step.
void Expander::state_frames() {
  const bool optimizer = trains() || request_.optimizer_state;
  for (const auto& [name, weights] : groups_) {
    const uint8_t per = g_[weights[0]].per;
    frame(name + ".weights", weights, per, true);
    if (!optimizer) continue;
    std::map<std::string, std::vector<ValueId>> kinds;
    for (const ValueId w : weights) {
      if (g_[w].dtype != DType::kF32)
        kinds["master"].push_back(twin(w, "master", Role::kMaster, DType::kF32));
      kinds["moment1"].push_back(twin(w, "moment1", Role::kMoment1, DType::kF32));
      kinds["moment2"].push_back(twin(w, "moment2", Role::kMoment2, DType::kF32));
    }
    for (const auto& [kind, values] : kinds) frame(name + "." + kind, values, per, true);
  }
  for (const auto& [name, weights] : groups_) {
    if (!trains()) break;
    std::vector<ValueId> gradients;
    for (const ValueId w : weights)
      for (size_t i = 0; i < g_.values.size(); ++i)
        if (g_.values[i].role == Role::kGradient && g_.values[i].name == g_[w].name + ".gradient") {
          gradients.push_back(static_cast<ValueId>(i));
          twins_[w]["gradient"] = static_cast<ValueId>(i);
        }
    CHECK(gradients.size() == weights.size(), "group {}: {} gradients of {} weights", name,
          gradients.size(), weights.size());
    frame(name + ".gradients", gradients, g_[weights[0]].per, false);
  }
}

void Expander::batch_frames() {
  std::vector<ValueId> batch;
  for (size_t i = 0; i < g_.values.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const Value& v = g_.values[i];
    if (v.role == Role::kStep || v.role == Role::kReport) frame(v.name, {id}, kOne, true);
    if (v.role == Role::kCache) frame(v.name, {id}, v.per, true);
    if (v.role == Role::kBatch) batch.push_back(id);
  }
  frame("batch", batch, kPerMicrobatch, true);
}

void Expander::stream_frames() {
  const uint8_t per = kPerLayer | kPerMicrobatch;
  const auto kind = [&](const std::string& name, ValueId Block::*member) {
    FrameKindId id = kNone;
    for (const Block& b : g_.blocks) {
      const ValueId v = b.*member;
      if (v == kNone) continue;
      if (id == kNone) id = frame(name, {v}, per, false);
      g_[v].frame = id;
      g_[v].offset = 0;
      auto& members = out_.program.kinds[static_cast<size_t>(id)].values;
      if (std::find(members.begin(), members.end(), v) == members.end()) members.push_back(v);
    }
  };
  kind("hidden", &Block::input);
  kind("hidden'", &Block::output);
  if (!trains()) return;
  kind("d_hidden", &Block::input_gradient);
  kind("d_hidden'", &Block::output_gradient);
}

void Expander::saved_frames() {
  if (!trains()) return;
  for (const Block& b : g_.blocks) {
    if (b.loss) continue;
    std::vector<ValueId> saved;
    for (const Op& op : b.forward)
      for (const ValueId v : op.outputs)
        if (g_[v].frame == kNone && readers(b.backward, v) > 0) saved.push_back(v);
    if (!saved.empty()) frame(b.name + ".saved", saved, g_[saved[0]].per, false);
  }
}

// Weights are read, gradients and report added to; what a segment reads before it writes the same
// frame is updated in place.
Access Expander::access_of(const Segment& s, FrameKindId kind) const {
  bool read = false, written = false, added = false;
  for (const Op& op : s.ops) {
    for (const ValueId v : op.inputs)
      if (g_[v].frame == kind && !written) read = true;
    if (op.packed != kNone && g_[op.packed].frame == kind) read = true;
    for (const ValueId v : op.outputs) {
      if (g_[v].frame != kind) continue;
      const Role r = g_[v].role;
      const bool adds = r == Role::kGradient ||
                        (r == Role::kReport && g_[v].name == "report" && op.kind != OpKind::kClear);
      const bool updates = op.kind == OpKind::kAdamw || r == Role::kCache;
      (adds ? added : written) = true;
      if (updates) read = true;
    }
  }
  if (added && !written) return read ? Access::kUpdate : Access::kAdd;
  if (!written) return Access::kRead;
  return read ? Access::kUpdate : Access::kWrite;
}

SegmentId Expander::segment(const std::string& name, std::vector<Op> ops) {
  Segment s;
  s.name = name;
  s.ops = std::move(ops);
  Program& p = out_.program;
  p.values.swap(g_.values);
  layout_scratch(p, s, target_.alignment);
  p.values.swap(g_.values);
  std::set<FrameKindId> kinds;
  for (const Op& op : s.ops) {
    for (const ValueId v : op.inputs) kinds.insert(g_[v].frame);
    for (const ValueId v : op.outputs) kinds.insert(g_[v].frame);
    if (op.packed != kNone) kinds.insert(g_[op.packed].frame);
  }
  kinds.erase(kNone);
  for (const FrameKindId k : kinds) s.frames.push_back({k, access_of(s, k)});
  p.segments.push_back(std::move(s));
  return static_cast<SegmentId>(p.segments.size() - 1);
}

void Expander::pack_weight(const std::string& block, Op& op) {
  if (op.kind != OpKind::kMatmul && op.kind != OpKind::kMatmulGradInput) return;
  const ValueId w = op.inputs[1];
  const int64_t bytes = g_[w].role == Role::kWeight ? target_.packed_bytes(op, g_.values) : 0;
  if (bytes == 0) return;
  const auto key = std::pair(w, op.kind);
  if (!packed_.contains(key)) {
    Value v;
    v.name = g_[w].name + (op.kind == OpKind::kMatmul ? ".packed" : ".packed_for_gradient");
    v.dtype = DType::kU8;
    v.shape = {bytes};
    v.role = Role::kPacked;
    v.per = g_[w].per;
    g_.values.push_back(std::move(v));
    packed_[key] = static_cast<ValueId>(g_.values.size() - 1);
    packs_[block].emplace_back(op, packed_[key]);
  }
  op.packed = packed_[key];
}

// Workspaces and packed weights, as the target's library wants them.
void Expander::ask_target(const std::string& block, std::vector<Op>& ops) {
  for (Op& op : ops) {
    pack_weight(block, op);
    const int64_t bytes = target_.workspace_bytes(op, g_.values);
    if (bytes == 0) continue;
    Value v;
    v.name = op.origin + ".workspace";
    v.dtype = DType::kU8;
    v.shape = {bytes};
    v.role = Role::kScratch;
    g_.values.push_back(std::move(v));
    op.workspace = static_cast<ValueId>(g_.values.size() - 1);
  }
}

void Expander::weight_segments(GroupSegments& group, const std::vector<ValueId>& weights) {
  std::vector<Op> squares, update;
  Builder to_squares(g_, squares, kOne, ""), to_update(g_, update, kOne, "");
  const ValueId step = only(Role::kStep, "step"), report = only(Role::kReport, "report");
  const OptimizerPolicy& o = request_.optimizer;
  for (const ValueId w : weights) {
    std::map<std::string, ValueId>& twin = twins_[w];
    to_squares.emit(OpKind::kSquares, g_[w].name, {}, {twin.at("gradient")}, {report});
    Attributes a = {{"beta1", o.beta1},
                    {"beta2", o.beta2},
                    {"epsilon", o.epsilon},
                    {"decay", g_[w].decays ? o.weight_decay : 0.0}};
    std::vector<ValueId> outputs = {w, twin.at("moment1"), twin.at("moment2")};
    if (twin.contains("master")) {
      a.set("master", int64_t{1});
      outputs.push_back(twin.at("master"));
    }
    to_update.emit(OpKind::kAdamw, g_[w].name, a, {twin.at("gradient"), step, report}, outputs);
  }
  ask_target(group.name, squares);
  group.squares = segment("squares." + group.name, squares);
  group.update = segment("update." + group.name, update);
}

// The same ops on values of their own; with keep_frames, what lies in frames stays where it is.
std::vector<Op> Expander::clone_scratch(std::vector<Op> ops, bool keep_frames) {
  std::map<ValueId, ValueId> copy;
  for (Op& op : ops) {
    for (ValueId& v : op.inputs)
      if (copy.contains(v)) v = copy[v];
    for (ValueId& v : op.outputs) {
      if (g_[v].role != Role::kActivation || (keep_frames && g_[v].frame != kNone)) continue;
      copy[v] = clone_value(g_, v, keep_frames ? ".again" : ".light");
      v = copy[v];
    }
    if (op.workspace != kNone) op.workspace = clone_value(g_, op.workspace, "");
  }
  return ops;
}

// Drops the op that writes the block's output, and what only it needed.
void Expander::keep_saved(std::vector<Op>& ops, ValueId output) const {
  for (size_t i = ops.size(); i-- > 0;) {
    const bool used = std::any_of(ops[i].outputs.begin(), ops[i].outputs.end(), [&](ValueId v) {
      return v != output && (g_[v].frame != kNone || readers(ops, v) > 0);
    });
    if (!used) ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Expander::block_segments(const Block& block, BlockSegments& out) {
  if (!(block.loss && trains())) {
    const std::vector<Op>& forward = block.forward;
    const int64_t light = block.name == "layer" && trains() ? recompute_.full_layers : 0;
    if (light > 0) {
      out.light = segment("light." + block.name, clone_scratch(forward, false));
      std::vector<Op> again = clone_scratch(forward, true);
      keep_saved(again, block.output);
      out.again = segment("again." + block.name, std::move(again));
    }
    if (light < block.layers) out.forward = segment("forward." + block.name, forward);
  }
  if (trains())
    out.backward = segment(block.loss ? block.name : "backward." + block.name, block.backward);
}

ValueId Expander::only(Role role, const std::string& name) const {
  for (size_t i = 0; i < g_.values.size(); ++i)
    if (g_.values[i].role == role && g_.values[i].name == name) return static_cast<ValueId>(i);
  CHECK(false, "the graph has no {}", name);
}

// Before any segment is laid out: what the target's library wants for the ops, and a frame for the
// packed weights of each block.
void Expander::prepare_products() {
  for (Block& b : g_.blocks) {
    std::vector<Op> forward = std::move(b.forward), backward = std::move(b.backward);
    if (!(b.loss && trains())) ask_target(b.name, forward);
    if (trains()) ask_target(b.name, backward);
    b.forward = std::move(forward);
    b.backward = std::move(backward);
    std::vector<ValueId> packed;
    for (const auto& [op, value] : packs_[b.name]) packed.push_back(value);
    if (!packed.empty()) frame(b.name + ".packed", packed, g_[packed[0]].per, false);
  }
}

void Expander::pack_segments() {
  for (size_t b = 0; b < g_.blocks.size(); ++b) {
    std::vector<Op> ops;
    for (const auto& [product, value] : packs_[g_.blocks[b].name]) {
      Op pack;
      pack.kind = OpKind::kPack;
      pack.origin = product.origin;
      pack.attributes = product.attributes;
      pack.attributes.set("product", std::string(rule_of(product.kind).name));
      pack.attributes.set("rows", g_[product.inputs[0]].shape.elements());
      pack.attributes.set("bytes", g_[value].shape[0]);
      pack.inputs = {product.inputs[1]};
      pack.outputs = {value};
      ops.push_back(std::move(pack));
    }
    if (!ops.empty()) out_.segments[b].pack = segment("pack." + g_.blocks[b].name, ops);
  }
}

Expanded Expander::run() {
  group_weights();
  state_frames();
  batch_frames();
  stream_frames();
  saved_frames();
  prepare_products();
  const ValueId report = only(Role::kReport, "report");
  std::vector<Op> clear, clip;
  Builder(g_, clear, kOne, "").emit(OpKind::kClear, "report", {}, {}, {report});
  out_.clear = segment("clear", clear);
  for (size_t b = 0; b < g_.blocks.size(); ++b) {
    out_.segments.emplace_back();
    block_segments(Block(g_.blocks[b]), out_.segments[b]);
  }
  pack_segments();
  if (trains()) {
    for (const auto& [name, weights] : groups_) {
      GroupSegments group{.name = name, .per_layer = (g_[weights[0]].per & kPerLayer) != 0};
      weight_segments(group, weights);
      out_.groups.push_back(group);
    }
    Builder(g_, clip, kOne, "")
        .emit(OpKind::kClip, "clip", {{"norm", request_.optimizer.clip_norm}}, {report}, {report});
    out_.clip = segment("clip", clip);
  }
  out_.program.values = std::move(g_.values);
  out_.blocks = std::move(g_.blocks);
  return std::move(out_);
}

}  // namespace

Expanded expand(Graph graph, const CompileRequest& request, const Recompute& recompute,
                const Target& target) {
  return Expander(std::move(graph), request, recompute, target).run();
}

}  // namespace tessera
