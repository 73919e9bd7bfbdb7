// Ranks as mixed-radix numbers of their mesh coordinates, pipeline outermost and tensor innermost,
// so that the ranks of a tensor group are neighbors on a node. Groups, shard shapes and the boxes
// of shards follow from the coordinates.
#include "ir/mesh.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

// Returns true if the members of a group differ along the axis.
bool differ(const GroupRef& group, AxisKind axis) {
  return group.kind == GroupRef::Kind::kWorld || group.has(axis);
}

}  // namespace

int64_t Mesh::ranks() const {
  int64_t n = 1;
  for (const int64_t s : size) n *= s;
  return n;
}

int64_t rank_of(const Mesh& mesh, const Coordinates& at) {
  int64_t rank = 0;
  for (const AxisKind a : Enumerators<AxisKind>()) rank = rank * mesh[a] + at[a];
  return rank;
}

Coordinates coordinates_of(const Mesh& mesh, int64_t rank) {
  CHECK(rank >= 0 && rank < mesh.ranks(), "rank {} of {}", rank, mesh.ranks());
  Coordinates c;
  int64_t stride = mesh.ranks();  // between ranks that are neighbors on the axis
  for (const AxisKind a : Enumerators<AxisKind>()) {
    stride /= mesh[a];
    c[a] = rank / stride % mesh[a];
  }
  return c;
}

GroupRef data_ranks() {
  return GroupRef::along({AxisKind::kReplica, AxisKind::kShard, AxisKind::kExpert});
}

// An axis of one rank is left out of the group if the other one has several.
GroupRef state_ranks(const Mesh& mesh) {
  GroupRef group;
  if (mesh[AxisKind::kShard] > 1 || mesh[AxisKind::kContext] == 1) group.add(AxisKind::kShard);
  if (mesh[AxisKind::kContext] > 1) group.add(AxisKind::kContext);
  return group;
}

void divide_state(Sharding& sharding, const Mesh& mesh) {
  sharding.place[AxisKind::kShard] = 0;
  if (mesh[AxisKind::kContext] > 1) sharding.place[AxisKind::kContext] = 0;
}

int64_t state_shards(const Mesh& mesh) { return group_size(mesh, state_ranks(mesh)); }

int64_t state_shard(const Mesh& mesh, const Coordinates& at) {
  return group_index(mesh, state_ranks(mesh), at);
}

std::vector<int64_t> group_of(const Mesh& mesh, const GroupRef& group, int64_t rank) {
  const Coordinates own = coordinates_of(mesh, rank);
  std::vector<int64_t> ranks;
  if (group.kind == GroupRef::Kind::kStages) {
    for (const int64_t stage : group.stages) {
      Coordinates c = own;
      c[AxisKind::kPipeline] = stage;
      ranks.push_back(rank_of(mesh, c));
    }
    CHECK(std::find(ranks.begin(), ranks.end(), rank) != ranks.end(), "rank {} is not in {}", rank,
          to_string(group));
    return ranks;
  }
  // The Cartesian product over the axes of the group, outer axes first, which gives ascending
  // ranks.
  std::vector<Coordinates> members = {own};
  for (const AxisKind a : Enumerators<AxisKind>()) {
    if (!differ(group, a)) continue;
    std::vector<Coordinates> more;
    for (Coordinates c : members)
      for (c[a] = 0; c[a] < mesh[a]; ++c[a]) more.push_back(c);
    members = std::move(more);
  }
  for (const Coordinates& c : members) ranks.push_back(rank_of(mesh, c));
  return ranks;
}

int64_t group_size(const Mesh& mesh, const GroupRef& group) {
  if (group.kind == GroupRef::Kind::kStages) return std::ssize(group.stages);
  int64_t n = 1;
  for (const AxisKind a : Enumerators<AxisKind>())
    if (differ(group, a)) n *= mesh[a];
  return n;
}

int64_t group_index(const Mesh& mesh, const GroupRef& group, const Coordinates& at) {
  if (group.kind == GroupRef::Kind::kStages) {
    const auto& stages = group.stages;
    return std::find(stages.begin(), stages.end(), at[AxisKind::kPipeline]) - stages.begin();
  }
  int64_t index = 0;
  for (const AxisKind a : Enumerators<AxisKind>())
    if (differ(group, a)) index = index * mesh[a] + at[a];
  return index;
}

// If several axes divide a dimension, it is divided by the number of ranks along all of them, and
// padded to a multiple of that number.
Shape part_shape(const Shape& global, const Sharding& sharding, const Mesh& mesh) {
  std::vector<int64_t> dims = global.dims();
  std::vector<int64_t> parts(dims.size(), 1);
  for (const AxisKind a : Enumerators<AxisKind>())
    if (sharding.place[a] >= 0) parts.at(sharding.place[a]) *= mesh[a];
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = (dims[d] + parts[d] - 1) / parts[d];
  return Shape(dims);
}

void localise(Value& v, const Mesh& mesh) {
  const Shape part = part_shape(v.shape, v.sharding, mesh);
  if (part == v.shape)
    v.part.reset();
  else
    v.part = part;
}

ValueVector local_values(ValueVector values) {
  for (Value& v : values) v.shape = Shape(v.local());
  return values;
}

GlobalBox global_box_of(const Value& v, const Mesh& mesh, const Coordinates& at) {
  std::vector<int64_t> index(v.shape.dims().size(), 0);
  // If several axes divide one dimension, the index of the shard is mixed-radix too, outer axes
  // first.
  const auto nest = [&](AxisKind a) {
    if (v.sharding.place[a] < 0) return;
    int64_t& i = index.at(v.sharding.place[a]);
    i = i * mesh[a] + at[a];
  };
  for (const AxisKind a : Enumerators<AxisKind>())
    if (a != AxisKind::kContext || v.sharding.cut != ContextCut::kHeads) nest(a);
  if (v.sharding.cut == ContextCut::kHeads) nest(AxisKind::kContext);
  // Shards have equal extents; the last ones may be cut off at n or be empty.
  GlobalBox e;
  for (int d = 0; d < v.shape.rank(); ++d) {
    const int64_t extent = v.local()[d], n = v.shape[d];
    const int64_t first = std::min(n, index[d] * extent);
    e.begin.push_back(first);
    e.end.push_back(std::min(n, first + extent));
  }
  return e;
}

std::vector<TokenRange> token_ranges(int64_t tokens, int64_t parts, int64_t first, int64_t count) {
  CHECK(tokens % (2 * parts) == 0 && first + count <= tokens,
        "{} tokens from {} on of {} in {} parts", count, first, tokens, parts);
  const int64_t chunk = tokens / (2 * parts);
  std::vector<TokenRange> ranges;
  for (int64_t at = first; at < first + count;) {
    // The order of ranks has the chunks 0, 2C - 1, 1, 2C - 2, …
    const int64_t k = at / chunk, within = at % chunk;
    const int64_t place = k % 2 == 0 ? k / 2 : 2 * parts - 1 - k / 2;
    const int64_t n = std::min(chunk - within, first + count - at);
    ranges.push_back({at - first, place * chunk + within, n});
    at += n;
  }
  return ranges;
}

std::vector<TokenRange> token_ranges(const Value& v, const Mesh& mesh, const GlobalBox& box) {
  const int d = v.sharding.place[AxisKind::kContext];
  CHECK(d >= 0, "{} has all tokens on every rank", v.name);
  const int64_t first = box.begin[d], count = box.end[d] - first;
  if (v.sharding.cut != ContextCut::kZigzag) return {{0, first, count}};
  return token_ranges(v.shape[d], mesh[AxisKind::kContext], first, count);
}

std::vector<CheckpointBox> checkpoint_boxes(const Value& v, const GlobalBox& place,
                                            const Box& box) {
  std::vector<CheckpointBox> boxes;
  const bool dealt = v.parent && v.parent->copies > 1;  // several rows share a row of the parent
  const int64_t step = dealt ? 1 : std::max<int64_t>(box.end[0] - box.begin[0], 1);
  for (int64_t row = box.begin[0]; row < box.end[0]; row += step) {
    CheckpointBox k{box, {}};
    k.part.begin[0] = row;
    k.part.end[0] = row + step;
    for (size_t d = 0; d < box.begin.size(); ++d) {
      k.known.begin.push_back(std::min(k.part.begin[d] + place.begin[d], place.end[d]));
      k.known.end.push_back(std::min(k.part.end[d] + place.begin[d], place.end[d]));
    }
    if (v.parent) {
      const int64_t first = k.known.begin[0], n = k.known.end[0] - first;
      const int64_t shift = v.parent->first + first % v.parent->copies * v.shape[1];
      k.known.begin[0] = first / v.parent->copies;
      k.known.end[0] = k.known.begin[0] + n;
      k.known.begin[1] += shift;
      k.known.end[1] += shift;
    }
    boxes.push_back(std::move(k));
  }
  return boxes;
}

}  // namespace tessera
