// The ranks of a run as a grid: one axis for each kind of parallelism, and the groups of ranks that
// talk to each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "ir/group.h"
#include "ir/value.h"

namespace tessera {

// Ranks are numbered with the last axis fastest: tensor ranks are neighbours, stages far apart.
//   rank = ((pipeline · replica' + replica) · shard' + shard) · … · tensor' + tensor
struct Mesh {
  EnumArray<AxisKind, int64_t> size;
  Mesh() { size.fill(1); }

  int64_t& operator[](AxisKind a) { return size[a]; }
  int64_t operator[](AxisKind a) const { return size[a]; }
  int64_t ranks() const;
  bool operator==(const Mesh&) const = default;
};

// Where a rank stands: 0 … size − 1 on each axis.
struct Coordinates {
  EnumArray<AxisKind, int64_t> at;

  int64_t& operator[](AxisKind a) { return at[a]; }
  int64_t operator[](AxisKind a) const { return at[a]; }
  bool operator==(const Coordinates&) const = default;
};

int64_t rank_of(const Mesh& mesh, const Coordinates& at);
Coordinates coordinates_of(const Mesh& mesh, int64_t rank);

// Returns true for the axes that divide the sequences. Ranks along kExpert also divide the experts;
// for all other weights they are data-parallel ranks.
constexpr bool is_data(AxisKind a) {
  return a == AxisKind::kReplica || a == AxisKind::kShard || a == AxisKind::kExpert;
}
GroupRef data_ranks();  // along these axes

// The ranks of the group that `rank` belongs to, in rising order; CHECKs that it does.
std::vector<int64_t> group_of(const Mesh& mesh, const GroupRef& group, int64_t rank);
// The number of ranks of such a group, and the index of a rank in its own.
int64_t group_size(const Mesh& mesh, const GroupRef& group);
int64_t group_index(const Mesh& mesh, const GroupRef& group, const Coordinates& at);

// The extents of one rank's part: ceil(n / parts) along every split dimension.
Shape part_shape(const Shape& global, const Sharding& sharding, const Mesh& mesh);
// Sets v.part from v.sharding.
void localise(Value& v, const Mesh& mesh);

// The values with the shapes that one rank has: what kernels and costs are asked about.
ValueVector local_values(ValueVector values);

// The box [begin, end) of the global value that a rank's part holds. The part may be larger: what
// is beyond the box is padding. Axes that split one dimension nest, outermost first.
struct Extents {
  std::vector<int64_t> begin, end;
};
Extents extents_of(const Value& v, const Mesh& mesh, const Coordinates& at);

// What of a box of a rank's part of a weight (which stands at `place`, its extents) is no padding,
// as boxes of what checkpoints know (Value::whole), in the order of the part's elements.
struct KnownBox {
  Box part;       // of the rank's part
  Extents known;  // of the whole; smaller where the part has padding
};
std::vector<KnownBox> known_boxes(const Value& v, const Extents& place, const Box& box);

}  // namespace tessera
