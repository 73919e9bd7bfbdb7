// Turns the blocks of a graph into segments of ops, and records how each segment uses its buffers.
//
// Values whose lifetime is longer than a segment get a buffer kind; those within one get an offset
// in the scratch of the segment (scratch.cc). A segment is compiled once per kind of block and
// called per layer and micro-batch, with other buffers.
//
// How a segment uses a buffer (read, write, add, update) is derived from its ops here, in one
// place. Schedules, lifetimes and the checker rely on it: "add" means that the first caller must
// find zeros, "update" that the old contents are read.
#include <set>

#include "base/error.h"
#include "compile/lower/lower.h"
#include "compile/lower/lowering.h"
#include "compile/lower/scratch.h"
#include "ir/builder.h"
#include "ir/rule.h"

namespace tessera::compile {
namespace {

// Weights are read; gradients and the report are added to. A buffer that a segment reads before it
// writes it is updated in place.
Access access_of(const Lowering& low, const Segment& s, BufferKindId kind) {
  bool read = false, written = false, added = false;
  for (const Op& op : s.ops) {
    for (const ValueId v : op.inputs)
      if (low.graph[v].buffer == kind && !written) read = true;
    if (op.packed != kNone && low.graph[op.packed].buffer == kind) read = true;
    for (const ValueId v : op.outputs) {
      if (low.graph[v].buffer != kind) continue;
      const Role r = low.graph[v].role;
      const bool adds = is_of_step(r) || (r == Role::kReport && rule_of(op).effects.adds_to_report);
      (adds ? added : written) = true;
      if (changes_state(op, r)) read = true;
    }
  }
  if (added && !written) return read ? Access::kUpdate : Access::kAdd;
  if (!written) return Access::kRead;
  return read ? Access::kUpdate : Access::kWrite;
}

// Creates the segments at the start and end of a step: clear and sum the report, clip the gradient.
void step_segments(Lowering& low) {
  const ValueId report = only(low, Role::kReport);
  std::vector<Op> clear, clip;
  Builder(low.graph, clear, kOne, "").emit(Clear{}, "report", {}, {report});
  low.out.clear = segment(low, Phase::kClear, "", clear);
  if (low.graph.mesh.ranks() > 1)
    low.out.sum_report = collective(low, Phase::kSumReport, "", AllReduce{}, GroupRef::world(),
                                    report, report, Queue::kGroups);
  if (!low.trains()) return;
  Builder(low.graph, clip, kOne, "")
      .emit(Clip{low.context.request.clip_norm}, "clip", {report, only(low, Role::kStep)},
            {report});
  low.out.clip = segment(low, Phase::kClip, "", clip);
}

}  // namespace

SegmentId segment(Lowering& low, Phase phase, const std::string& subject, std::vector<Op> ops,
                  Queue queue) {
  Segment s;
  s.phase = phase;
  s.subject = subject;
  s.ops = std::move(ops);
  s.queue = queue;
  Program& p = low.out.program;
  std::swap(p.values, low.graph.values);
  find_op_waits(s.ops, p.values);
  layout_scratch(p, s, low.context.target.alignment);
  std::swap(p.values, low.graph.values);
  std::set<BufferKindId> kinds;
  for (const Op& op : s.ops) {
    for (const ValueId v : op.inputs) kinds.insert(low.graph[v].buffer);
    for (const ValueId v : op.outputs) kinds.insert(low.graph[v].buffer);
    if (op.packed != kNone) kinds.insert(low.graph[op.packed].buffer);
  }
  kinds.erase(kNone);
  for (const BufferKindId k : kinds) s.buffers.push_back({k, access_of(low, s, k)});
  return p.segments.push_back(std::move(s));
}

ValueId only(const Lowering& low, Role role) {
  for (const ValueId v : low.graph.values.ids())
    if (low.graph[v].role == role) return v;
  CHECK(false, "the graph has no {}", value_name(role));
}

LoweredGraph lower(Graph graph, const Context& context, const StagesOfBlocks& holders) {
  Lowering low(std::move(graph), context, holders);
  low.out.program.mesh = low.graph.mesh;
  low.out.segments.resize(low.graph.blocks.size());
  weight_buffers(low);
  gradient_buffers(low);
  batch_buffers(low);
  score_buffers(low);
  stream_buffers(low);
  saved_buffers(low);
  pending_buffers(low);
  prepare_products(low);
  for (const BlockId b : low.graph.blocks.ids())
    block_segments(low, Block(low.graph.blocks[b]), low.out.segments[b]);
  pack_segments(low);
  step_segments(low);
  score_segments(low);
  message_segments(low);
  for (WeightGroup& g : low.out.groups) {
    reduce_segments(low, g);
    if (low.trains() && !g.frozen) weight_segments(low, g);
  }
  low.out.program.values = std::move(low.graph.values);
  low.out.blocks = std::move(low.graph.blocks);
  return std::move(low.out);
}

}  // namespace tessera::compile
