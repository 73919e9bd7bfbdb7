// Divides one weight's elements in one flat buffer into shards of the state. The buffer is divided
// into one part per shard rank, and the weight's range within a part is a few boxes of its local
// value (base/shape.h), each with its position in the global one. A box that contains only padding
// gives no shard.
//
//   weight [4, 6] at elements 8…31 of 64, 2 shard ranks, rank 1 (32…63): none; rank 0: one box
//   weight [4, 6] at elements 24…47: rank 0 has 24…31 (row 0, columns 0…1 of row 1), rank 1 the
//   rest
#pragma once

#include <string>
#include <vector>

#include "base/shape.h"
#include "ir/state/local_state.h"

namespace tessera {

// A buffer with one element for each element of a group's weights.
struct FlatBuffer {
  BufferKindId weights = kNone;  // the group's table: the offsets of its weights
  BufferKindId kind = kNone;     // the kind that is divided …
  bool divided = false;          // … which holds only this rank's shard
  bool whole = false;            // all shards are valid, not only this rank's
  BufferKindId scales = kNone;   // the kind with the scales of moments in 8 bits, or kNone
  BufferKindId copy = kNone;     // the kind with the same elements, rounded, or kNone
  bool copy_divided = false;
  Role role = Role::kWeight;
  std::string suffix;  // appended to names: "|moment1"
};

// Appends the shards of the rank at `at` to `out`.
class ShardBuilder {
 public:
  ShardBuilder(const Program& p, const Coordinates& at, std::vector<StateShard>& out)
      : p_(p), at_(at), out_(out) {}

  void add(const FlatBuffer& s, ValueId weight, int64_t layer) const;

 private:
  // Returns the shard for one box of the weight, which begins at `begin` in the whole buffer; this
  // rank's part of the buffer begins at `own`.
  StateShard shard(const FlatBuffer& s, ValueId weight, const CheckpointBox& box, int64_t begin,
                   int64_t own) const;

  const Program& p_;
  const Coordinates& at_;
  std::vector<StateShard>& out_;
};

}  // namespace tessera
