// Segments that reduce gradients over the data ranks, whole or in buckets.
#include "base/error.h"
#include "compile/expander.h"
#include "compile/graph_passes.h"
#include "compile/rewrite.h"
#include "ir/names.h"
#include "ir/rule.h"

namespace tessera {

SegmentId Expander::collective(Phase phase, const std::string& subject, OpAttributes attributes,
                               const GroupRef& over, ValueId in, ValueId out, Queue queue) {
  const std::string name = segment_name(phase, subject);
  Op op;
  op.attributes = std::move(attributes);
  *over_of(op.attributes) = over;
  op.inputs = {in};
  op.outputs = {out};
  op.origin = name;
  std::vector<Op> ops = {std::move(op)};
  if (g_[in].role == Role::kGradient) ops = buckets(ops[0]);
  if (is_staged(ops[0])) ask_target(ops);
  return segment(phase, subject, std::move(ops), queue);
}

namespace {

// The ops that each reduce one of so many pieces of what the op reduces.
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

}  // namespace

// A sum of gradients in the type of the wire, cut into ops that each send a bucket at most.
std::vector<Op> Expander::buckets(const Op& op) {
  const Value whole = local_values({g_[op.inputs[0]]}).front();
  const DType low = type_of(request_.precision);
  const bool lower =
      request_.options.communication == WireType::kHalf && size_of(low) < size_of(whole.dtype);
  const int64_t bytes = whole.shape.elements() * size_of(lower ? low : whole.dtype);
  const int64_t most = request_.options.bucket_bytes;
  const int64_t pieces = most > 0 ? (bytes + most - 1) / most : 1;
  const auto cut = [&](auto reduction) {
    if (lower) reduction.wire = low;
    return pieces_of(op, reduction, pieces);
  };
  return op.is<AllReduce>() ? cut(op.as<AllReduce>()) : cut(op.as<ReduceScatter>());
}

// Groups of one rank have nothing to gather and nothing to reduce.
void Expander::reduce_segments(WeightGroup& g) {
  const FrameKind kind = out_.program.kinds[g.weights];
  const GroupRef shard = GroupRef::along({AxisKind::kShard});
  const bool several = shards() > 1;
  if (divides(3))
    g.gather = collective(Phase::kGather, g.name, AllGather{}, shard, flat(g.weights_shard, true),
                          flat(g.weights, false), Queue::kData);
  else if (divides(1) && !g.frozen)
    g.gather = collective(Phase::kGather, g.name, AllGather{}, shard, flat(g.weights, true),
                          flat(g.weights, false), Queue::kData);
  if (!trains() || g.frozen) return;
  const FrameKindId sums = reduces_each() ? g.gradients_shard : g.gradients;
  const ValueId own = flat(sums, divides(1));
  if (several && divides(1))
    g.reduce = collective(Phase::kReduce, g.name, ReduceScatter{}, shard, flat(g.gradients, false),
                          own, Queue::kData);
  else if (several)
    g.reduce = collective(Phase::kReduce, g.name, AllReduce{}, shard, own, own, Queue::kData);
  GroupRef others = g.partial;
  if (g_.mesh[AxisKind::kReplica] > 1) others.add(AxisKind::kReplica);
  if (!others.empty())
    g.finish = collective(Phase::kFinish, g.name, AllReduce{}, others, own, own, Queue::kGroups);
  if (!kind.stages.empty())
    g.join = collective(Phase::kJoin, g.name, AllReduce{}, GroupRef::of_stages(kind.stages), own,
                        own, Queue::kGroups);
}

}  // namespace tessera
