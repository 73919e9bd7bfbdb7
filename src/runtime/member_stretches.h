// The contiguous ranges of weights within the part of a flat frame that a rank holds.
#pragma once

#include <span>
#include <vector>

#include "ir/mesh.h"
#include "ir/program.h"
#include "ir/state/member_ranges.h"

namespace tessera::runtime {

// A stretch of a member of a flat value whose elements follow each other in the global weight too.
struct MemberStretch {
  size_t member = 0;
  int64_t first = 0, elements = 0;  // of the flat value
  int64_t global = 0;               // the weight's element that `first` is
  // Set by part_stretches(): the index of the part's FactorPlace, and the element of the part.
  size_t place = 0;
  int64_t element = 0;
};
// Of all members, by rising place. Padding is in none.
std::vector<MemberStretch> member_stretches(const Program& program,
                                            std::span<const MemberRange> members,
                                            const Coordinates& at);

// Returns the same ranges, split at the bounds of parts of packed weights (Value::parts).
std::vector<MemberStretch> part_stretches(const Program& program, FrameKindId table,
                                          std::span<const MemberRange> members,
                                          std::span<const MemberStretch> stretches);

// For squares and updates: which elements of a flat operand belong to which weight. An
// op has as much of it as its rule asks for (OpRule::members).
struct FlatMembers {
  std::vector<MemberRange> ranges;
  std::vector<MemberStretch> stretches;
  std::vector<FactorPlace> factors;  // by MemberStretch::place
};

}  // namespace tessera::runtime
