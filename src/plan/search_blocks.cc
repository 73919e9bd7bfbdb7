#include "plan/search_blocks.h"

#include <algorithm>
#include <limits>

#include "compile/blocks.h"
#include "ir/rule.h"
#include "plan/segment_time.h"

namespace tessera {
namespace {

class Measure {
 public:
  Measure(const Blocks& blocks, const Hardware& hardware, const Software& software)
      : request_(blocks.request),
        e_(blocks.expanded),
        p_(e_.program),
        software_(software),
        times_(p_, hardware, software) {}

  SegmentCost cost(SegmentId id) {
    SegmentCost c;
    if (id == kNone) return c;
    const Segment& s = p_.segment(id);
    c.scratch_bytes = s.scratch_bytes;
    for (const bool fresh : {false, true}) {
      const SegmentTime& t = time(id, fresh);
      int64_t exposed = 0;
      for (const int64_t ns : t.parts.exposed) exposed += ns;
      c.compute_ns[fresh] = t.ns - exposed - t.parts.host;
      c.floor_ns[fresh] = t.parts.host > 0 ? t.ns : 0;
    }
    for (const Op& op : s.ops) {
      if (!communicates(op.kind) || runs_beside(s, op)) continue;
      const ValueId whole = op.kind == OpKind::kAllGather ? op.outputs[0] : op.inputs[0];
      c.collectives.push_back(
          {op.kind, op.attributes.text("over"), static_cast<double>(p_[whole].bytes())});
    }
    return c;
  }

  GroupCost group(const WeightGroup& g) {
    GroupCost c;
    int stack = 0;
    for (const BlockId b : e_.blocks.ids()) {
      const Block& block = e_.blocks[b];
      if (std::find(g.blocks.begin(), g.blocks.end(), b) != g.blocks.end()) {
        c.embed |= block.input == kNone;
        c.head |= block.output == kNone;
        if (g.per_layer) c.stack = stack;
      }
      stack += block.is_stack();
    }
    for (const ValueId v : p_.kind(g.weights).values) {
      c.elements += p_[v].local().elements();
      c.weight_bytes = size_of(p_[v].dtype);
    }
    c.read_back = reads_back(g);
    c.trained = !g.frozen;
    if (g.frozen) return c;
    for (const FrameKindId k : g.state) {
      if (k == g.factors)
        c.factor_bytes += p_.kind(k).bytes;
      else if (k != g.weights)
        c.kept_bytes += size_of(p_[p_.kind(k).values.at(0)].dtype);
    }
    c.sum_bytes = size_of(p_[p_.kind(g.gradients).values.at(0)].dtype);
    const bool narrows = request_.options.communication == WireType::kHalf;
    c.wire_bytes = narrows ? std::min(c.sum_bytes, c.weight_bytes) : c.sum_bytes;
    c.squares_ns = time(g.squares, false).ns;
    c.update_ns = time(g.update, false).ns;
    return c;
  }

  StackCosts stack(const Block& block, const BlockSegments& s) {
    StackCosts c;
    c.layer = cost(s.light != kNone ? s.light : s.forward);
    c.again = cost(s.again);
    c.backward = cost(s.backward);
    c.weights = cost(s.weights);
    c.pending_bytes = frame_bytes(block.name + ".pending");
    c.saved_bytes = frame_bytes(block.name + ".saved");
    c.stream_gradient_bytes = 2 * bytes_of("d_" + block.from);
    if (reads(s.backward, block.from) || reads(s.again, block.from) || reads(s.weights, block.from))
      c.input_bytes = bytes_of(block.from);
    if (reads(s.weights, block.from)) c.kept_bytes += c.input_bytes;
    if (reads(s.weights, block.name + ".saved")) c.kept_bytes += c.saved_bytes;
    return c;
  }

  int64_t bytes_of(const std::string& kind) const {
    for (const FrameKind& k : p_.kinds)
      if (k.name == kind) return p_[k.values.at(0)].bytes();
    return 0;
  }

  // All values of the kind, as they lie.
  int64_t frame_bytes(const std::string& kind) const {
    for (const FrameKind& k : p_.kinds)
      if (k.name == kind) return k.bytes;
    return 0;
  }

  bool reads(SegmentId id, const std::string& kind) const {
    if (id == kNone) return false;
    const std::vector<Parameter>& frames = p_.segment(id).frames;
    return std::any_of(frames.begin(), frames.end(),
                       [&](const Parameter& f) { return p_.kind(f.kind).name == kind; });
  }

 private:
  bool reads_back(const WeightGroup& g) const {
    const std::string& weights = p_.kind(g.weights).name;
    return std::any_of(g.blocks.begin(), g.blocks.end(), [&](BlockId b) {
      const BlockSegments& s = e_.segments[b];
      return reads(s.again, weights) || reads(s.backward, weights) || reads(s.weights, weights);
    });
  }

  // As in SegmentTimes: what such software hides may take no time.
  bool runs_beside(const Segment& s, const Op& op) const {
    const bool again = s.name.starts_with("again.") || p_[op.outputs[0]].name.ends_with(".again");
    return software_.overlap_regather && op.kind == OpKind::kAllGather && again;
  }

  const SegmentTime& time(SegmentId id, bool fresh) {
    Call call;
    call.segment = id;
    call.fresh = {fresh};
    return times_.of(call);
  }

  const CompileRequest& request_;
  const Expanded& e_;
  const Program& p_;
  const Software& software_;
  SegmentTimes times_;
};

}  // namespace

BlockCosts block_costs(const CompileRequest& asked, const Target& target, const Hardware& hardware,
                       const Software& software) {
  CompileRequest request = asked;
  Layout& l = request.layout;
  const bool divided = l.pipeline_schedule == PipelineSchedule::kZeroBubble && l.pipeline > 1;
  l.data = l.interleave = 1;
  l.zero = l.zero_group = 0;
  l.pipeline = divided ? 2 : 1;
  if (!divided) l.pipeline_schedule = PipelineSchedule::k1F1B;
  request.microbatches = 1;
  const Blocks blocks = compile_blocks(request, target);
  const Expanded& e = blocks.expanded;
  Measure measure(blocks, hardware, software);
  BlockCosts costs;
  costs.message_bytes = std::numeric_limits<double>::infinity();
  for (const BlockId b : e.blocks.ids()) {
    const BlockSegments& s = e.segments[b];
    const Block& block = e.blocks[b];
    if (block.output == kNone) {
      costs.head = measure.cost(s.backward);
    } else if (block.input == kNone) {
      costs.embed = measure.cost(s.forward);
      costs.embed_backward = measure.cost(s.backward);
      costs.embeds_backward = s.backward != kNone;
    } else if (!block.is_stack()) {
      costs.bridge = measure.cost(s.forward);
      costs.bridge_backward = measure.cost(s.backward);
    } else {
      costs.light = s.light != kNone;
      costs.stacks.push_back(measure.stack(block, s));
      const auto message = static_cast<double>(measure.bytes_of(block.from));
      costs.message_bytes = std::min(costs.message_bytes, message);
    }
  }
  for (const WeightGroup& g : e.groups) costs.groups.push_back(measure.group(g));
  costs.shares = shares_of(e.blocks, e.program.values);
  return costs;
}

}  // namespace tessera
