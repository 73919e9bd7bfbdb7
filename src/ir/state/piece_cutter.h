// One weight's elements in one flat frame → pieces. The frame is cut into a part for each shard
// rank, and what of the weight's range lies in a part is a few boxes of its local value
// (base/box.h), each with its place in the global one; a box that is padding alone is no piece.
//   weight [4, 6] at elements 8…31 of 64, 2 shard ranks, rank 1 (32…63): none; rank 0: one box
//   weight [4, 6] at elements 24…47: rank 0 has 24…31 (row 0, columns 0…1 of row 1), rank 1 the
//   rest
#pragma once

#include <string>
#include <vector>

#include "base/shape.h"
#include "ir/state/pieces.h"

namespace tessera {

// A frame with an element for each of a group's weights.
struct FlatFrame {
  FrameKindId weights = kNone;  // the group's table: which weight stands where
  FrameKindId kind = kNone;     // what is cut …
  bool divided = false;         // … which holds the own part alone
  bool whole = false;           // all parts are valid, not the own alone
  FrameKindId copy = kNone;     // where the same elements stand rounded, or kNone
  bool copy_divided = false;
  Role role = Role::kWeight;
  std::string suffix;  // of names: "|moment1"
};

// Appends to `out` what the rank at `at` has.
class PieceCutter {
 public:
  PieceCutter(const Program& p, const Coordinates& at, std::vector<StatePiece>& out)
      : p_(p), at_(at), out_(out) {}

  void cut(const FlatFrame& s, ValueId weight, int64_t layer) const;

 private:
  // Of the weight, which begins at `begin` of the whole frame; the own part begins at `own`.
  StatePiece piece(const FlatFrame& s, ValueId weight, const KnownBox& box, int64_t begin,
                   int64_t own) const;

  const Program& p_;
  const Coordinates& at_;
  std::vector<StatePiece>& out_;
};

}  // namespace tessera
