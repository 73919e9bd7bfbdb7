// Compiles the blocks of a model once per (tensor, context, expert, micro-batch, recomputation,
// sequence parallelism, divided backward), with data = expert and one or two stages, and extracts
// what the bounds of all layouts with these blocks need: durations without communication,
// collectives by group and bytes, saved bytes, and the costs of weight groups.
#include "plan/search_blocks.h"

#include <algorithm>
#include <limits>

#include "base/real.h"
#include "compile/passes.h"
#include "ir/rule.h"
#include "plan/segment_time.h"

namespace tessera::plan {
namespace {

class Measure {
 public:
  Measure(const compile::CompiledBlocks& blocks, const Hardware& hardware, const Software& software)
      : request_(blocks.context.request),
        e_(blocks.state.lowered),
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
    // Inline collectives are kept as (kind, group, bytes), because their time depends on where a
    // layout puts the group; what may be hidden counts as 0.
    for (const Op& op : s.ops) {
      if (!communicates(op) || runs_beside(s, op)) continue;
      c.collectives.push_back({rule_of(op).effects.comm, *over_of(op.attributes),
                               ratio(p_[whole_operand(op)].bytes(), op.chunk.count)});
    }
    return c;
  }

  // Bytes per element, so that a layout can divide the elements among its ranks.
  GroupCost group(const compile::WeightGroup& g) {
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
    for (const BufferKindId k : g.state) {
      if (k == g.factors) c.factor_bytes += p_.kind(k).bytes;
      // Scales are a fraction of a byte per element; without them the sum remains a lower bound.
      else if (k != g.weights && !is_moment_scale(p_[p_.kind(k).values.at(0)].role))
        c.kept_bytes += size_of(p_[p_.kind(k).values.at(0)].dtype);
    }
    c.sum_bytes = size_of(p_[p_.kind(g.gradients).values.at(0)].dtype);
    const bool narrows = request_.options.grad_reduce_dtype == compile::GradReduceDType::kWeight;
    c.wire_bytes = narrows ? std::min(c.sum_bytes, c.weight_bytes) : c.sum_bytes;
    if (g.squares != kNone) c.squares_ns = time(g.squares, false).ns;
    c.update_ns = time(g.update, false).ns;
    if (g.orthogonalize != kNone) c.orthogonalize_ns = time(g.orthogonalize, false).ns;
    return c;
  }

  // Returns what a layer saves from its forward for its backward, and from its backward for its
  // weight-gradient part, in bytes. Its input is counted separately: the previous layer wrote it.
  StackCosts stack(const Block& block, const compile::BlockSegments& s) {
    StackCosts c;
    c.layer = cost(s.forward_no_save != kNone ? s.forward_no_save : s.forward);
    c.again = cost(s.recompute);
    c.backward = cost(s.backward);
    c.weights = cost(s.weight_backward);
    c.pending_bytes = buffer_bytes(s.pending);
    c.saved_bytes = buffer_bytes(s.saved);
    c.stream_gradient_bytes = 2 * value_bytes(block.input_gradient);
    const BufferKindId input = p_[block.input].buffer;
    const bool kept = reads(s.weight_backward, input);
    if (reads(s.backward, input) || reads(s.recompute, input) || kept)
      c.input_bytes = value_bytes(block.input);
    if (kept) c.kept_bytes += c.input_bytes;
    if (reads(s.weight_backward, s.saved)) c.kept_bytes += c.saved_bytes;
    c.gives_memory = reads(s.backward, e_.encoder_output_gradient);
    return c;
  }

  int64_t value_bytes(ValueId v) const { return v == kNone ? 0 : p_[v].bytes(); }

  // Bytes of a buffer of this kind, with padding.
  int64_t buffer_bytes(BufferKindId kind) const { return kind == kNone ? 0 : p_.kind(kind).bytes; }

  bool reads(SegmentId id, BufferKindId kind) const {
    if (id == kNone || kind == kNone) return false;
    const std::vector<Parameter>& buffers = p_.segment(id).buffers;
    return std::any_of(buffers.begin(), buffers.end(),
                       [&](const Parameter& f) { return f.kind == kind; });
  }

 private:
  bool reads_back(const compile::WeightGroup& g) const {
    return std::any_of(g.blocks.begin(), g.blocks.end(), [&](BlockId b) {
      const compile::BlockSegments& s = e_.segments[b];
      return reads(s.recompute, g.weights) || reads(s.backward, g.weights) ||
             reads(s.weight_backward, g.weights);
    });
  }

  // As in SegmentTimes: communication that such software hides may take no time.
  bool runs_beside(const Segment& s, const Op& op) const {
    if (software_.overlap_tensor && is_inner(op.queue)) return true;
    const bool again =
        s.phase == Phase::kRecompute || p_[op.outputs[0]].copy == CopyKind::kRecomputed;
    return software_.overlap_regather && again && rule_of(op).effects.comm == CommKind::kAllGather;
  }

  const SegmentTime& time(SegmentId id, bool fresh) {
    Call call;
    call.segment = id;
    call.first_write = {fresh};
    return times_.of(call);
  }

  const compile::CompileRequest& request_;
  const compile::LoweredGraph& e_;
  const Program& p_;
  const Software& software_;
  SegmentTimes times_;
};

}  // namespace

BlockCosts block_costs(const compile::CompileRequest& asked, const Target& target,
                       const Hardware& hardware, const Software& software) {
  compile::CompileRequest request = asked;
  compile::Layout& l = request.layout;
  const bool divided =
      l.pipeline_schedule == compile::PipelineSchedule::kZeroBubble && l.pipeline > 1;
  l.data = l.expert;  // one rank along kShard
  l.interleave = 1;
  l.zero = l.zero_group = 0;
  // Two stages suffice to have the divided backward; with one stage all schedules are the same.
  l.offload = "none";  // see CandidateView::offload
  l.pipeline = divided ? 2 : 1;
  if (!divided) l.pipeline_schedule = compile::PipelineSchedule::k1F1B;
  request.microbatches = 1;
  const compile::CompiledBlocks blocks = compile::compile_blocks(request, target);
  const compile::LoweredGraph& e = blocks.state.lowered;
  Measure measure(blocks, hardware, software);
  BlockCosts costs;
  costs.message_bytes = std::numeric_limits<double>::infinity();
  for (const BlockId b : e.blocks.ids()) {
    const compile::BlockSegments& s = e.segments[b];
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
      costs.light = s.forward_no_save != kNone;
      costs.stacks.push_back(measure.stack(block, s));
      const auto message = static_cast<double>(measure.value_bytes(block.input));
      costs.message_bytes = std::min(costs.message_bytes, message);
    }
  }
  IdVector<BlockId, size_t> stack(e.blocks.size(), 0);
  size_t stacks = 0;
  for (const BlockId b : e.blocks.ids())
    if (e.blocks[b].is_stack()) stack[b] = stacks++;
  for (const compile::ChunkBlock& v : compile::model_order(e.blocks)) {
    const Block& block = e.blocks[v.block];
    if (block.is_stack())
      costs.order.push_back(stack[v.block]);
    else if (block.input != kNone && block.output != kNone)
      costs.bridge_before = v.before;
  }
  for (const compile::WeightGroup& g : e.groups) costs.groups.push_back(measure.group(g));
  costs.shares = compile::shares_of(e.blocks, e.program.values);
  return costs;
}

}  // namespace tessera::plan
