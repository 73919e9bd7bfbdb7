// Which parts of an optimizer's flat frames belong to which weight: what sums and updates work on.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

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
std::vector<MemberRange> member_ranges(const Program& program, FrameKindId table, const Value& flat,
                                       const Coordinates& at);

// The place of Adafactor's means of the rows and columns of a matrix in its frame of factors (and
// of their sums in the frame of sums), in elements. A vector has no columns.
struct FactorPlace {
  int64_t rows = 0, columns = 0, rows_at = 0, columns_at = kNone;
  int64_t elements() const { return columns > 0 ? rows * columns : rows; }
};
// Returns the places of all parts (Value::parts) of all members, in the order of the table.
std::vector<FactorPlace> factor_places(const Program& program, FrameKindId table);
// Returns for each member the index of the place of its first part.
std::vector<size_t> first_factor_places(const Program& program, FrameKindId table);

}  // namespace tessera
