// Maps the elements of an optimizer's flat buffers to weights, for ops that sum over or update
// them.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

// A range of a flat value that belongs to one member of its table, as elements [first, last) of the
// value on the rank at `at`. Squares and update work on these ranges.
struct MemberRange {
  ValueId weight = kNone;
  int64_t first = 0, last = 0;
  int64_t element = 0;   // index of `first` in the rank's shard of the weight, row-major
  size_t index = 0;      // index of the weight in the table
  bool counted = false;  // true on one of the ranks that hold the same elements: counted in sums
                         // over all ranks
  bool counted_in_stage = false;  // the same for sums over the ranks of each stage
};
std::vector<MemberRange> member_ranges(const Program& program, BufferKindId table,
                                       const Value& flat, const Coordinates& at);

// The offsets, in elements, of Adafactor's means of the rows and columns of a matrix in its buffer
// of factors (and of their sums in the buffer of sums). A vector has no columns.
struct FactoredMomentRange {
  int64_t rows = 0, columns = 0, rows_at = 0, columns_at = kNone;
  int64_t elements() const { return columns > 0 ? rows * columns : rows; }
};
// Returns the offsets of all parts (Value::parts) of all members, in the order of the table.
std::vector<FactoredMomentRange> factored_moment_ranges(const Program& program, BufferKindId table);

// The matrices of a part in Muon's buffer of directions: `count` equal ones, the first of which is
// at element `at`. If the matrices of a weight (of experts) are divided among ranks, these are the
// rank's own, and `first` is the index of their first element in the part.
struct MatrixRange {
  int64_t at = 0, count = 1, rows = 0, columns = 0, first = 0;
  int64_t elements() const { return count * rows * columns; }
};
// Returns the places of all parts of all members, in the order of the table, on the rank at `at`.
std::vector<MatrixRange> matrix_ranges(const Program& program, BufferKindId directions,
                                       const Coordinates& at);
// Returns true if an axis divides the matrices of a weight, so that a rank has elements of each of
// them. Ranks along kExpert have whole matrices.
bool divides_matrices(const Value& weight, AxisKind axis, const Mesh& mesh);

// Returns for each member the index of its first part in factored_moment_ranges() and
// matrix_ranges().
std::vector<size_t> first_part_ranges(const Program& program, BufferKindId table);

}  // namespace tessera
