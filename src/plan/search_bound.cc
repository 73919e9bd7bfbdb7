// Computes the inputs of the bounds (search_bound.h) in tables that many candidates share: costs of
// blocks, shapes of groups by (tensor, context, expert, pipeline), layers by number of chunks.
#include "plan/search_bound.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/on_threads.h"
#include "base/real.h"
#include "compile/schedule/pipeline.h"
#include "plan/search_view.h"

namespace tessera::plan {
namespace {

int64_t to_ns(double s) { return std::llround(s * 1e9); }

}  // namespace

Bounds::Bounds(const SearchRequest& request, const Target& target, const Hardware& hardware,
               const Software& software)
    : request_(request), target_(target), hardware_(hardware), software_(software) {}

Bounds::BlockKey Bounds::key_of(const Candidate& c) {
  const compile::Layout& l = c.layout;
  const bool divided =
      l.pipeline > 1 && l.pipeline_schedule == compile::PipelineSchedule::kZeroBubble;
  return {l.tensor, l.context,   l.context_method,    l.context_balance,
          l.expert, l.recompute, l.sequence_parallel, divided,
          c.micro};
}

BlockCosts Bounds::costs_of(const Candidate& c) const {
  return block_costs(request_of(request_, c), target_, hardware_, software_);
}

void Bounds::compile_blocks(const std::vector<const Candidate*>& candidates) {
  std::map<BlockKey, const Candidate*> open;  // one candidate of each key
  for (const Candidate* c : candidates)
    if (!blocks_.contains(key_of(*c))) open.emplace(key_of(*c), c);
  const std::vector<std::pair<BlockKey, const Candidate*>> list(open.begin(), open.end());
  std::vector<BlockCosts> costs(list.size());
  std::atomic<size_t> next = 0;
  on_threads(std::min(list.size(), std::max<size_t>(1, request_.threads)), [&](size_t) {
    for (size_t i = next++; i < list.size(); i = next++) costs[i] = costs_of(*list[i].second);
  });
  for (size_t i = 0; i < list.size(); ++i) blocks_.emplace(list[i].first, std::move(costs[i]));
}

const BlockCosts& Bounds::blocks(const Candidate& c) {
  const BlockKey key = key_of(c);
  auto known = blocks_.find(key);
  if (known == blocks_.end()) known = blocks_.emplace(key, costs_of(c)).first;
  return known->second;
}

// Durations depend on a stage only by the position of its ranks within nodes, so stages with the
// same position share one entry. Shapes depend only on (tensor, context, expert, pipeline),
// since these determine the data degree, and on the copies of heads.
MeshPlaces& Bounds::places(const compile::Layout& layout) {
  const std::array key = {layout.tensor, layout.context, layout.expert, layout.pipeline,
                          compile::head_copies(request_.base.model, layout)};
  const auto known = places_.find(key);
  if (known != places_.end()) return known->second;
  MeshPlaces& m = places_[key];
  m.mesh.push_back(compile::mesh_of(layout, compile::head_copies(request_.base.model, layout)));
  const Mesh& mesh = m.mesh[0];
  const int64_t stages = layout.pipeline, ranks = mesh.ranks() / stages;
  std::map<int64_t, size_t> like;  // by the position of the first rank within a node
  for (int64_t s = 0; s < stages; ++s) {
    const auto [group, fresh] =
        like.try_emplace(s * ranks % hardware_.node.devices, m.stage.size());
    m.group.push_back(group->second);
    if (fresh) {
      m.stage.push_back(s);
      m.shard.push_back(group_shape(mesh, state_ranks(mesh), s, hardware_, software_.hierarchical));
    }
    m.next.push_back(message_shape(mesh, s, (s + 1) % stages, hardware_));
    m.back.push_back(message_shape(mesh, s, (s + stages - 1) % stages, hardware_));
  }
  m.inner.resize(m.stage.size());
  return m;
}

const GroupShape& Bounds::shape_of(MeshPlaces& places, size_t group, const GroupRef& over) const {
  std::map<GroupRef, GroupShape>& known = places.inner[group];
  auto shape = known.find(over);
  if (shape == known.end())
    shape = known
                .emplace(over, group_shape(places.mesh[0], over, places.stage[group], hardware_,
                                           software_.hierarchical))
                .first;
  return shape->second;
}

const ChunkLayers& Bounds::layers(const BlockCosts& b, int64_t chunks) {
  const auto [known, fresh] = layers_.try_emplace({chunks, b.shares});
  ChunkLayers& l = known->second;
  if (!fresh) return l;
  const std::vector<int64_t> spread = compile::spread_layers(b.shares, chunks);
  l.cost = compile::chunk_costs(b.shares, spread);
  int64_t first = 0;
  for (const int64_t n : spread) {
    const int64_t end = first + n;
    const auto stack = [&](int64_t layer) { return b.order[layer]; };
    ChunkLayers::Chunk& c = l.chunks.emplace_back();
    c.of.resize(b.stacks.size());
    c.layers = n;
    for (int64_t layer = first; layer < end; ++layer) ++c.of[stack(layer)];
    if (n > 0) c.first = stack(first), c.last = stack(end - 1);
    if (n > 1 && b.bridge_before != end - 1) c.last_but_one = stack(end - 2);
    c.bridge = first <= b.bridge_before && b.bridge_before < end;
    c.begins_with_bridge = c.bridge && first == b.bridge_before;
    first = end;
  }
  return l;
}

// Returns the durations of one call of each kind on a group of stages:
//
//   ZeRO      weights gathered       gradients
//   0         never                  all-reduce
//   1, 2      if they are trained    reduce-scatter
//   3         always                 reduce-scatter
CallNs Bounds::calls_of(const BlockCosts& b, MeshPlaces& places, size_t group, int64_t zero) const {
  // The time of a segment is its computation plus its exposed collectives, and at least its
  // launches.
  const auto ns = [&](const SegmentCost& s, bool first) {
    int64_t sum = s.compute_ns[first];
    for (const InlineCollective& c : s.collectives)
      sum += to_ns(collective_s(c.kind, c.bytes, shape_of(places, group, c.over), hardware_));
    return std::max(sum, s.floor_ns[first]);
  };
  const auto both = [&](const SegmentCost& s) { return CallNs::Both{ns(s, false), ns(s, true)}; };
  CallNs n;
  n.embed = ns(b.embed, false);
  n.bridge = ns(b.bridge, false);
  n.head = both(b.head);
  n.embed_backward = both(b.embed_backward);
  n.bridge_backward = both(b.bridge_backward);
  for (const StackCosts& s : b.stacks)
    n.stacks.push_back({ns(s.layer, false), ns(s.again, false), both(s.backward), both(s.weights)});
  const GroupShape& shard = places.shard[group];
  for (const GroupCost& g : b.groups) {
    const auto bytes = [&](int64_t each) { return real_product(g.elements, each); };
    const auto moved = [&](CommKind kind, int64_t each) {
      return to_ns(collective_s(kind, bytes(each), shard, hardware_));
    };
    // Only ZeRO 3 shards weights that are never updated.
    const bool gathers = zero == 3 || (zero > 0 && g.trained);
    const int64_t gather = gathers ? moved(CommKind::kAllGather, g.weight_bytes) : 0;
    const CommKind reduction = zero == 0 ? CommKind::kAllReduce : CommKind::kReduceScatter;
    const int64_t reduce = g.trained ? moved(reduction, g.wire_bytes) : 0;
    if (g.stack != kNone) {
      CallNs::OfLayer& layer = n.stacks[g.stack];
      layer.gather += gather, layer.reduce += reduce;
      if (g.read_back) layer.gather_back += gather;
    }
    if (g.embed) n.gather_embed += gather, n.reduce_embed += reduce;
  }
  return n;
}

int64_t Bounds::message_ns(const Candidate& c, const BlockCosts& b, MeshPlaces& places,
                           const GroupShape& pair) const {
  const int64_t parts = c.layout.tensor;
  if (!software_.split_messages || parts == 1 || c.layout.sequence_parallel)
    return to_ns(message_s(b.message_bytes, pair, hardware_));
  // The fastest all-gather over all groups of stages, as a lower bound for any receiver.
  double gather = std::numeric_limits<double>::infinity();
  const GroupRef over = GroupRef::along({AxisKind::kTensorKv, AxisKind::kTensor});
  for (size_t g = 0; g < places.stage.size(); ++g)
    gather = std::min(gather, collective_s(CommKind::kAllGather, b.message_bytes,
                                           shape_of(places, g, over), hardware_));
  return to_ns(message_s(ratio(b.message_bytes, parts), pair, hardware_) + gather);
}

// Without the times.
CandidateView Bounds::sizes(const Candidate& c, const BlockCosts& blocks) {
  CandidateView v;
  v.candidate = &c;
  v.blocks = &blocks;
  v.places = &places(c.layout);
  v.layers = &layers(blocks, c.layout.pipeline * c.layout.interleave);
  v.offload = compile::parse_offload(c.layout.offload);
  v.shards = state_shards(v.places->mesh[0]);
  v.microbatches = request_.global / c.layout.data / c.micro;
  return v;
}

CandidateView Bounds::view(const Candidate& c) {
  CandidateView v = sizes(c, blocks(c));
  MeshPlaces& places = this->places(c.layout);
  v.begin = to_ns(software_.step_s);
  v.sender_waits = !software_.overlap_pipeline;
  for (size_t g = 0; g < places.stage.size(); ++g)
    v.calls.push_back(calls_of(*v.blocks, places, g, c.layout.zero));
  for (int64_t s = 0; s < c.layout.pipeline; ++s) {
    v.next.push_back(message_ns(c, *v.blocks, places, places.next[s]));
    v.back.push_back(message_ns(c, *v.blocks, places, places.back[s]));
  }
  return v;
}

int64_t Bounds::bytes_by_smaller_micro(const Candidate& c) {
  const BlockKey key = key_of(c);
  const auto above = blocks_.lower_bound(key);
  if (above == blocks_.begin()) return 0;
  const auto& [smaller, blocks] = *std::prev(above);
  BlockKey same = smaller;
  std::get<8>(same) = c.micro;
  return same == key ? sizes(c, blocks).bytes_by_formula() : 0;
}

Bound Bounds::quick(const Candidate& c) {
  const CandidateView v = view(c);
  return {v.step_by_formula(), v.bytes_by_formula()};
}

// The maximum with the formula makes this bound at least as large as that of quick().
Bound Bounds::closer(const Candidate& c) {
  const CandidateView v = view(c);
  compile::PipelineShape shape;
  shape.schedule = c.layout.pipeline_schedule;
  shape.stages = c.layout.pipeline;
  shape.interleave = c.layout.interleave;
  shape.microbatches = v.microbatches;
  shape.cost = v.layers->cost;
  const std::vector<std::vector<compile::Action>> actions = compile::pipeline_actions(shape);
  return {std::max(v.step_by_formula(), v.step_of(actions)),
          std::max(v.bytes_by_formula(), v.bytes_of(actions))};
}

}  // namespace tessera::plan
