// Which global values of the run's state a rank holds: the one function that saving, resuming,
// export and verification ask.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

// A contiguous part of a flat frame that is a box of one global value.
struct StatePiece {
  std::string name;           // "layer3.attn.qkv.weight", "layer3.attn.qkv.weight|moment1"
  Role role = Role::kWeight;  // kWeight for weights and masters alike: under one name
  FrameKindId kind = kNone;   // the frame it lies in …
  int64_t layer = kNone;      // … of this layer
  int64_t first = 0;          // its first element in that frame
  DType dtype = DType::kF32;
  Shape shape;                      // of the global value
  std::vector<int64_t> begin, end;  // box of the global value
  ValueId weight = kNone;           // whose it is: initial values
  bool owned = false;               // this rank is the one that saves it
  FrameKindId copy = kNone;         // where the same elements stand rounded, or kNone …
  int64_t copy_first = 0;           // … from this element on
};

// What the rank at `at` holds: weights under their own names, in f32 where there are masters, then
// what the optimizer keeps of each, in the order of the program's frames. Each element of the state
// is owned by one rank.
std::vector<StatePiece> pieces(const Program& program, const Coordinates& at = {});

// The sums of gradients over the step, under the names of their weights; valid after a run.
std::vector<StatePiece> gradient_pieces(const Program& program, const Coordinates& at = {});

// The parts of a flat value's frame kind that belong to members of its table, as [first, last)
// elements of the value that the rank at `at` has: what squares and update work on.
struct MemberRange {
  ValueId weight = kNone;
  int64_t first = 0, last = 0;
  int64_t element = 0;   // of the rank's part of the weight, row-major, that `first` is
  size_t index = 0;      // of the weight in the table
  bool counted = false;  // in sums over all ranks: one of those that hold the same elements
  bool counted_in_stage = false;  // the same in sums over the ranks of each stage
};
std::vector<MemberRange> member_ranges(const Program& program, const std::string& members,
                                       const Value& flat, const Coordinates& at);

// Where Adafactor's means of the rows and columns of each member stand in its frame of factors (and
// their sums in the frame of sums), in elements. A vector has no columns.
struct FactorPlace {
  int64_t rows = 0, columns = 0, rows_at = 0, columns_at = kNone;
};
std::vector<FactorPlace> factor_places(const Program& program, const std::string& members);

}  // namespace tessera
