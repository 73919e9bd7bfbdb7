// The contiguous ranges of weights within a rank's shard of a flat buffer.
#pragma once

#include <span>
#include <vector>

#include "ir/mesh.h"
#include "ir/program.h"
#include "ir/state/member_ranges.h"

namespace tessera::runtime {

// A range of a flat value that belongs to one member and is contiguous in the global weight too.
struct MemberRun {
  size_t member = 0;
  int64_t first = 0, elements = 0;  // in the flat value
  int64_t global = 0;               // index of element `first` in the global weight
  // Set by part_runs(): the index of the part's FactoredMomentRange or MatrixRange, and the index
  // of `first` in the part.
  size_t place = 0;
  int64_t element = 0;
};
// Returns the ranges of all members, in increasing order. Padding is in none of them.
std::vector<MemberRun> member_runs(const Program& program, std::span<const MemberRange> members,
                                   const Coordinates& at);

// Returns the same ranges, split at the bounds of parts of packed weights (Value::parts).
std::vector<MemberRun> part_runs(const Program& program, BufferKindId table,
                                 std::span<const MemberRange> members,
                                 std::span<const MemberRun> runs);

// Assigns the elements of a flat operand to weights, for squares and updates. Only the tables that
// the rule of the op asks for (OpRule::members) are filled.
struct FlatMembers {
  std::vector<MemberRange> ranges;
  std::vector<MemberRun> runs;
  // By MemberRun::place.
  std::vector<FactoredMomentRange> factors;
  std::vector<MatrixRange> matrices;
};

}  // namespace tessera::runtime
