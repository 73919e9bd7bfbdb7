// The ranks of a run as a grid with one axis per kind of parallelism, and the groups of ranks that
// communicate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "ir/group.h"
#include "ir/value.h"

namespace tessera {

// Ranks are numbered with the last axis fastest: tensor ranks are neighbors, stages are far apart.
//   rank = ((pipeline · replica' + replica) · shard' + shard) · … · tensor' + tensor
struct Mesh {
  EnumArray<AxisKind, int64_t> size;
  Mesh() { size.fill(1); }

  int64_t& operator[](AxisKind a) { return size[a]; }
  int64_t operator[](AxisKind a) const { return size[a]; }
  int64_t ranks() const;
  bool operator==(const Mesh&) const = default;
};

// The position of a rank: 0 … size − 1 on each axis.
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
GroupRef data_ranks();  // the group along these axes

// Ranks along kShard and kContext compute with the same weights on different tokens, so ZeRO
// divides state over both. divide_state() splits a flat buffer over them; the axes nest, kContext
// inside.
GroupRef state_ranks(const Mesh& mesh);
void divide_state(Sharding& sharding, const Mesh& mesh);
int64_t state_shards(const Mesh& mesh);                        // their number
int64_t state_shard(const Mesh& mesh, const Coordinates& at);  // the shard of a rank
// Returns true for the axes along which ranks hold shards of one replica of the state.
constexpr bool divides_state(AxisKind a) {
  return a == AxisKind::kShard || a == AxisKind::kContext;
}

// Returns the ranks of the group that `rank` belongs to, in ascending order; CHECKs that it belongs
// to it.
std::vector<int64_t> group_of(const Mesh& mesh, const GroupRef& group, int64_t rank);
// Return the number of ranks in such a group, and the index of a rank in its own group.
int64_t group_size(const Mesh& mesh, const GroupRef& group);
int64_t group_index(const Mesh& mesh, const GroupRef& group, const Coordinates& at);

// Returns the shape of one rank's shard: ceil(n / parts) along every split dimension.
Shape part_shape(const Shape& global, const Sharding& sharding, const Mesh& mesh);
// Sets v.part, the shape on one rank, from v.sharding.
void localise(Value& v, const Mesh& mesh);

// Returns the values with their shapes on one rank, as kernels and costs need them.
ValueVector local_values(ValueVector values);

// The box [begin, end) of the global value that a rank's shard holds. The shard may be larger:
// elements outside the box are padding. If several axes split one dimension, they nest, outermost
// first; with ContextCut::kHeads the context axis is the innermost one.
// With ContextCut::kZigzag the tokens of the box are numbered in the order of ranks.
struct GlobalBox {
  std::vector<int64_t> begin, end;
};
GlobalBox global_box_of(const Value& v, const Mesh& mesh, const Coordinates& at);

// Consecutive tokens of a sequence that are consecutive on a rank: `count` tokens, the first of
// which is token `first` of the sequence and token `local` of the rank.
struct TokenRange {
  int64_t local = 0, first = 0, count = 0;
  bool operator==(const TokenRange&) const = default;
};
// Returns the ranges of the tokens [first, first + count) in the order of ranks, in which rank r of
// `parts` has the chunks r and 2 · parts − 1 − r of the sequence (ContextCut::kZigzag).
std::vector<TokenRange> token_ranges(int64_t tokens, int64_t parts, int64_t first, int64_t count);
// Returns the ranges of the tokens of a value that kContext divides by token, in its box.
std::vector<TokenRange> token_ranges(const Value& v, const Mesh& mesh, const GlobalBox& box);

// The parts of a box of a rank's shard of a weight that are not padding, as boxes of the tensor in
// checkpoints (Value::parent), in the order of the shard's elements. `place`: the extents of the
// shard.
struct CheckpointBox {
  Box part;         // box of the rank's shard
  GlobalBox known;  // box of the checkpoint's tensor; smaller if the shard has padding
};
std::vector<CheckpointBox> checkpoint_boxes(const Value& v, const GlobalBox& place, const Box& box);

}  // namespace tessera
