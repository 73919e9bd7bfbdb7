// Segments that reduce gradients over the data ranks, whole or in buckets, and the largest
// attention scores.
#include "compile/graph/graph_passes.h"
#include "compile/lower/lowering.h"
#include "ir/names.h"
#include "ir/rule.h"
#include "ir/signature.h"

namespace tessera::compile {

namespace {

// Splits a reduction into `pieces` ops.
template <class Reduction>
std::vector<Op> pieces_of(const Op& op, Reduction reduction, int64_t pieces) {
  reduction.pieces = pieces;
  std::vector<Op> ops;
  for (int64_t k = 0; k < pieces; ++k) {
    reduction.piece = k;
    ops.push_back(op);
    ops.back().attributes = reduction;
  }
  return ops;
}

// Casts a gradient reduction to the wire type and splits it into ops of at most one bucket.
std::vector<Op> buckets(Lowering& low, const Op& op) {
  const Value whole = local_values({low.graph[op.inputs[0]]}).front();
  const DType narrow = type_of(low.context.request.precision);
  const bool lower = low.context.request.options.grad_reduce_dtype == GradReduceDType::kWeight &&
                     size_of(narrow) < size_of(whole.dtype);
  const int64_t bytes = whole.shape.elements() * size_of(lower ? narrow : whole.dtype);
  const int64_t most = low.context.request.options.bucket_bytes;
  const int64_t pieces = most > 0 ? (bytes + most - 1) / most : 1;
  const auto cut = [&](auto reduction) {
    if (lower) reduction.wire = narrow;
    return pieces_of(op, reduction, pieces);
  };
  return op.is<AllReduce>() ? cut(op.as<AllReduce>()) : cut(op.as<ReduceScatter>());
}

}  // namespace

SegmentId collective(Lowering& low, Phase phase, const std::string& subject,
                     OpAttributes attributes, const GroupRef& over, ValueId in, ValueId out,
                     Queue queue) {
  const std::string name = segment_name(phase, subject);
  Op op;
  op.attributes = std::move(attributes);
  *over_of(op.attributes) = over;
  op.inputs = {in};
  op.outputs = {out};
  op.origin = name;
  std::vector<Op> ops = {std::move(op)};
  if (low.graph[in].role == Role::kGradient) ops = buckets(low, ops[0]);
  if (is_staged(ops[0])) ask_target(low, ops);
  return segment(low, phase, subject, std::move(ops), queue);
}

// All attentions of a block have the same sharding.
void score_segments(Lowering& low) {
  for (const BlockId b : low.graph.blocks.ids()) {
    const BufferKindId kind = low.out.segments[b].scores;
    if (kind == kNone) continue;
    const Value scores = low.graph[low.out.program.kinds[kind].values[0]];
    GroupRef over;
    for (const AxisKind a : divided_axes(low.graph.mesh))
      if (scores.sharding.place[a] == kPartialMax) over.add(a);
    if (over.empty()) continue;
    const ValueId all = flat(low, kind, false);
    low.out.segments[b].max_scores =
        collective(low, Phase::kMaxScores, low.graph.blocks[b].name, AllReduce{.max = true}, over,
                   all, all, Queue::kGroups);
  }
}

// Groups of one rank have nothing to gather and nothing to reduce.
void reduce_segments(Lowering& low, WeightGroup& g) {
  const BufferKind kind = low.out.program.kinds[g.weights];
  const GroupRef shard = state_ranks(low.graph.mesh);
  const ZeroPlan& zero = low.context.zero;
  if (zero.gather == WeightGather::kPerUse)
    g.gather =
        collective(low, Phase::kGather, g.name, AllGather{}, shard,
                   flat(low, g.weights_shard, true), flat(low, g.weights, false), Queue::kData);
  else if (zero.gather == WeightGather::kPerStep && !g.frozen)
    g.gather = collective(low, Phase::kGather, g.name, AllGather{}, shard,
                          flat(low, g.weights, true), flat(low, g.weights, false), Queue::kData);
  if (!low.trains() || g.frozen) return;
  const BufferKindId sums = zero.reduces_each ? g.gradients_shard : g.gradients;
  const ValueId own = flat(low, sums, zero.divides_optimizer());
  if (zero.reduce == GradientReduce::kReduceScatter)
    g.reduce = collective(low, Phase::kReduce, g.name, ReduceScatter{}, shard,
                          flat(low, g.gradients, false), own, Queue::kData);
  else if (zero.reduce == GradientReduce::kAllReduce)
    g.reduce = collective(low, Phase::kReduce, g.name, AllReduce{}, shard, own, own, Queue::kData);
  GroupRef others = g.partial;
  if (low.graph.mesh[AxisKind::kReplica] > 1) others.add(AxisKind::kReplica);
  if (!others.empty())
    g.finish =
        collective(low, Phase::kFinish, g.name, AllReduce{}, others, own, own, Queue::kGroups);
  if (!kind.stages.empty())
    g.join = collective(low, Phase::kJoin, g.name, AllReduce{}, GroupRef::of_stages(kind.stages),
                        own, own, Queue::kGroups);
}

}  // namespace tessera::compile
