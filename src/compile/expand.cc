// Turns the blocks of a graph into segments of ops; states how each segment uses its frames.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "compile/expand.h"
#include "compile/expander.h"
#include "compile/rewrite.h"
#include "compile/scratch.h"
#include "ir/builder.h"
#include "ir/rule.h"

namespace tessera {

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
      const bool adds =
          r == Role::kGradient || (r == Role::kReport && rule_of(op).effects.adds_to_report);
      (adds ? added : written) = true;
      if (changes_state(op, r)) read = true;
    }
  }
  if (added && !written) return read ? Access::kUpdate : Access::kAdd;
  if (!written) return Access::kRead;
  return read ? Access::kUpdate : Access::kWrite;
}

SegmentId Expander::segment(Phase phase, const std::string& subject, std::vector<Op> ops,
                            Queue queue) {
  Segment s;
  s.phase = phase;
  s.subject = subject;
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
  return p.segments.push_back(std::move(s));
}

ValueId Expander::only(Role role) const {
  for (const ValueId v : g_.values.ids())
    if (g_[v].role == role) return v;
  CHECK(false, "the graph has no {}", value_name(role));
}

// What frames the step: the report cleared and summed, the gradient clipped.
void Expander::step_segments() {
  const ValueId report = only(Role::kReport);
  std::vector<Op> clear, clip;
  Builder(g_, clear, kOne, "").emit(Clear{}, "report", {}, {report});
  out_.clear = segment(Phase::kClear, "", clear);
  if (g_.mesh.ranks() > 1)
    out_.sum_report = collective(Phase::kSumReport, "", AllReduce{}, GroupRef::world(), report,
                                 report, Queue::kGroups);
  if (!trains()) return;
  Builder(g_, clip, kOne, "")
      .emit(Clip{request_.optimizer.clip_norm}, "clip", {report, only(Role::kStep)}, {report});
  out_.clip = segment(Phase::kClip, "", clip);
}

Expanded Expander::run() {
  out_.program.mesh = g_.mesh;
  out_.segments.resize(g_.blocks.size());
  weight_frames();
  gradient_frames();
  batch_frames();
  stream_frames();
  saved_frames();
  pending_frames();
  prepare_products();
  for (const BlockId b : g_.blocks.ids()) block_segments(Block(g_.blocks[b]), out_.segments[b]);
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
                const Target& target, const StagesOfBlocks& holders) {
  return Expander(std::move(graph), request, recompute, target, holders).run();
}

}  // namespace tessera
