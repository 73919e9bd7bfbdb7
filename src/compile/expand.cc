#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/expander.h"
#include "compile/rewrite.h"
#include "compile/scratch.h"
#include "ir/builder.h"
#include "ir/in_place.h"

namespace tessera {
namespace {

int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

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
  std::map<std::string, FrameKindId> known;
  const auto add = [&](const std::string& name, ValueId v) {
    if (v == kNone) return;
    const auto found = known.find(name);
    const FrameKindId id =
        found != known.end() ? found->second : frame(name, {v}, kPerLayer | kPerMicrobatch, false);
    known[name] = id;
    g_[v].frame = id;
    g_[v].offset = 0;
    auto& members = out_.program.kinds[static_cast<size_t>(id)].values;
    if (std::find(members.begin(), members.end(), v) == members.end()) members.push_back(v);
  };
  for (const Block& b : g_.blocks) add(b.from, b.input);
  for (const Block& b : g_.blocks) add(b.to + "'", b.output);
  if (trains())
    for (const Block& b : g_.blocks) add("d_" + b.from, b.input_gradient);
  if (trains())
    for (const Block& b : g_.blocks) add("d_" + b.to + "'", b.output_gradient);
  if (g_.memory == kNone) return;
  frame("memory", {g_.memory}, kPerMicrobatch, false);
  if (trains()) frame("d_memory", {g_.memory_gradient}, kPerMicrobatch, false);
}

void Expander::saved_frames() {
  if (!trains()) return;
  for (const Block& b : g_.blocks) {
    if (b.loss) continue;
    std::vector<ValueId> saved;
    for (const Op& op : b.forward)
      for (const ValueId v : op.outputs)
        if (g_[v].frame == kNone && readers(b.backward, v) + readers(b.weights, v) > 0)
          saved.push_back(v);
    if (!saved.empty()) frame(b.name + ".saved", saved, g_[saved[0]].per, false);
  }
}

// What the part of the backward for inputs leaves to the part for weights: zero_bubble.
void Expander::pending_frames() {
  for (const Block& b : g_.blocks) {
    std::vector<ValueId> pending;
    for (const Op& op : b.backward)
      for (const ValueId v : op.outputs)
        if (g_[v].frame == kNone && readers(b.weights, v) > 0) pending.push_back(v);
    if (!pending.empty()) frame(b.name + ".pending", pending, g_[b.input].per, false);
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
      (adds ? added : written) = true;
      if (changes_state(op.kind, r)) read = true;
    }
  }
  if (added && !written) return read ? Access::kUpdate : Access::kAdd;
  if (!written) return Access::kRead;
  return read ? Access::kUpdate : Access::kWrite;
}

SegmentId Expander::segment(const std::string& name, std::vector<Op> ops, Queue queue) {
  Segment s;
  s.name = name;
  s.ops = std::move(ops);
  s.queue = queue;
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
  // What is gathered for one use is not worth packing.
  const bool packs = g_[w].role == Role::kWeight && !divides(3);
  const int64_t bytes = packs ? target_.packed_bytes(op, local_) : 0;
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
  local_ = local_values(g_.values);
  for (Op& op : ops) {
    pack_weight(block, op);
    const int64_t bytes = target_.workspace_bytes(op, local_);
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

// The block's output goes to scratch, where nobody reads it.
void Expander::give_away(std::vector<Op>& ops, ValueId output) {
  for (Op& op : ops)
    for (ValueId& v : op.outputs)
      if (v == output) {
        v = clone_value(g_, output, ".again");
        g_[v].role = Role::kScratch;
      }
}

void Expander::block_segments(const Block& block, BlockSegments& out) {
  if (!(block.loss && trains())) {
    const std::vector<Op>& forward = block.forward;
    const int64_t light = block.is_stack() && trains() ? recompute_.full_layers : 0;
    if (light > 0) {
      out.light = segment("light." + block.name, clone_scratch(forward, false));
      std::vector<Op> again = clone_scratch(forward, true);
      if (request_.options.again == AgainKind::kWhole)
        give_away(again, block.output);
      else
        keep_saved(again, block.output);
      out.again = segment("again." + block.name, std::move(again));
    }
    if (light < request_.model.all_layers())
      out.forward = segment("forward." + block.name, forward);
  }
  if (trains() && !block.backward.empty())
    out.backward = segment(block.loss ? block.name : "backward." + block.name, block.backward);
  if (!block.weights.empty()) out.weights = segment("weights." + block.name, block.weights);
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
    if (!(b.loss && trains())) ask_target(b.name, b.forward);
    if (trains()) ask_target(b.name, b.backward);
    if (trains()) ask_target(b.name, b.weights);
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
      pack.attributes.set("rows", g_[product.inputs[0]].local().elements());
      pack.attributes.set("bytes", g_[value].shape[0]);
      pack.inputs = {product.inputs[1]};
      pack.outputs = {value};
      ops.push_back(std::move(pack));
    }
    if (!ops.empty()) out_.segments[b].pack = segment("pack." + g_.blocks[b].name, ops);
  }
}

ValueId Expander::stream(const std::string& wanted) const {
  const auto& kinds = out_.program.kinds;
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const FrameKind& k) { return k.name == wanted; });
  CHECK(kind != kinds.end(), "the graph has no {}", wanted);
  return kind->values.at(0);
}

SegmentId Expander::message(const std::string& name, const std::vector<const char*>& kinds,
                            bool sends, Queue queue) {
  const bool ahead = queue == Queue::kSendForward || queue == Queue::kReceiveBackward;
  const std::string peer = ahead ? "next" : "previous";
  std::vector<Op> ops;
  for (const char* wanted : kinds) {
    const ValueId v = stream(wanted);
    Op op;
    op.kind = sends ? OpKind::kSend : OpKind::kReceive;
    op.origin = name;
    if (sends) {
      op.attributes = {{"to", peer}};
      op.inputs = {v};
    } else {
      const std::string shape = fmt::format("{}", fmt::join(g_[v].shape.dims(), "x"));
      op.attributes = {
          {"from", peer}, {"type", std::string(name_of(g_[v].dtype))}, {"shape", shape}};
      op.outputs = {v};
    }
    ops.push_back(std::move(op));
  }
  return segment(name, std::move(ops), queue);
}

// What all tensor ranks hold is kept in parts, one each (DeepSpeed's pipe_partitioned); else the
// stream's own frame lives on. Nothing is computed from it: the last segment ends its life.
void Expander::kept_segments(Messages& m, const std::string& suffix,
                             const std::vector<const char*>& kinds) {
  constexpr int8_t kTokens = 1;
  const auto tensor = static_cast<size_t>(AxisKind::kTensor);
  std::vector<Op> ops;
  std::vector<Parameter> held;
  for (const char* kind : kinds) {
    ValueId v = stream(kind);
    if (g_.mesh.size[tensor] > 1 && g_[v].sharding.place[tensor] < 0) {
      Sharding part = g_[v].sharding;
      part.place[tensor] = kTokens;
      v = Builder(g_, ops, kPerLayer | kPerMicrobatch, "").convert(v, part);
      frame(std::string(kind) + suffix + ".sent", {v}, kPerLayer | kPerMicrobatch, false);
    }
    held.push_back({g_[v].frame, Access::kRead});
  }
  if (!ops.empty()) m.keep_sent = segment("keep_sent" + suffix, std::move(ops));
  m.release_sent = segment("release_sent" + suffix, {});
  out_.program.segments.back().frames = std::move(held);
}

void Expander::message_segments() {
  if (g_.mesh[AxisKind::kPipeline] == 1) return;
  const auto make = [&](Crossing crossing, const std::string& suffix,
                        const std::vector<const char*>& forward,
                        const std::vector<const char*>& backward) {
    Messages& m = out_.messages[static_cast<size_t>(crossing)];
    m.send_forward = message("send_forward" + suffix, forward, true, Queue::kSendForward);
    m.receive_forward = message("receive_forward" + suffix, forward, false, Queue::kReceiveForward);
    if (!trains()) return;
    m.send_backward = message("send_backward" + suffix, backward, true, Queue::kSendBackward);
    m.receive_backward =
        message("receive_backward" + suffix, backward, false, Queue::kReceiveBackward);
    if (request_.options.sent == SentKind::kKept) kept_segments(m, suffix, forward);
  };
  make(Crossing::kHidden, "", {"hidden"}, {"d_hidden"});
  if (g_.memory == kNone) return;
  make(Crossing::kSource, ".source", {"source"}, {"d_source"});
  make(Crossing::kMemory, ".memory", {"hidden", "memory"}, {"d_hidden", "d_memory"});
}

// What frames the step: the report cleared and summed, the gradient clipped.
void Expander::step_segments() {
  const ValueId report = only(Role::kReport, "report");
  std::vector<Op> clear, clip;
  Builder(g_, clear, kOne, "").emit(OpKind::kClear, "report", {}, {}, {report});
  out_.clear = segment("clear", clear);
  if (g_.mesh.ranks() > 1)
    out_.sum_report =
        collective("sum.report", OpKind::kAllReduce, "world", report, report, Queue::kGroups);
  if (!trains()) return;
  std::vector<ValueId> inputs = {report};
  if (request_.precision == Precision::kFp16) inputs.push_back(only(Role::kStep, "step"));
  Builder(g_, clip, kOne, "")
      .emit(OpKind::kClip, "clip", {{"norm", request_.optimizer.clip_norm}}, inputs, {report});
  out_.clip = segment("clip", clip);
}

Expanded Expander::run() {
  out_.program.mesh = g_.mesh;
  weight_frames();
  gradient_frames();
  batch_frames();
  stream_frames();
  saved_frames();
  pending_frames();
  prepare_products();
  for (size_t b = 0; b < g_.blocks.size(); ++b) {
    out_.segments.emplace_back();
    block_segments(Block(g_.blocks[b]), out_.segments[b]);
  }
  pack_segments();
  step_segments();
  message_segments();
  for (WeightGroup& g : out_.groups) {
    reduce_segments(g);
    if (trains() && !g.frozen) weight_segments(g);
  }
  out_.program.values = std::move(g_.values);
  out_.blocks = std::move(g_.blocks);
  return std::move(out_);
}

Expanded expand(Graph graph, const CompileRequest& request, const Recompute& recompute,
                const Target& target, const std::vector<std::vector<int64_t>>& holders) {
  return Expander(std::move(graph), request, recompute, target, holders).run();
}

}  // namespace tessera
