// Functions that the bindings of optimizer updates share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/update.h"
#include "runtime/binding.h"

namespace tessera::runtime {

// For update ops: their first inputs are gradient, step and report, and their outputs are weights,
// moments and master weights (ir/ops/update.h).
kernels::UpdateConstants update_constants(const WeightUpdate& a);
// Returns the addresses of a step's numbers: the learning rate and the update number in `step`, the
// scale and the skip flag in `report`.
kernels::UpdateNumbers update_numbers(const TensorView& step, const TensorView& report);
// Returns the seed of the step. Reads host memory.
double update_seed(const BoundOp& b, const TensorView& step);
kernels::Update update_operands(const BoundOp& b, const WeightUpdate& a);

// For a member: whether weight decay applies, and the key of stochastic rounding for its elements
// (or for the elements of a part).
bool decays(const BoundOp& b, const WeightUpdate& a, const MemberRange& member);
uint64_t rounding_key(const BoundOp& b, ValueId weight, double seed, const std::string& part = "");
// The ranges of one part of a weight; their elements are counted in the part.
struct PartRanges {
  ValueId weight = kNone;
  const WeightPart* part = nullptr;  // nullptr: the weight is one part
  std::vector<kernels::UpdateRange> ranges;
};
// Returns the ranges of each part of the weights, by MemberRun::place.
std::map<size_t, PartRanges> part_ranges(const BoundOp& b, const WeightUpdate& a, double seed);

}  // namespace tessera::runtime
