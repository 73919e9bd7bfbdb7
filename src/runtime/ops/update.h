// What bindings of updates share.
#pragma once

#include "kernels/update.h"
#include "runtime/binding.h"

namespace tessera::runtime {

// Of an op with gradient, step and report as its first inputs, and weights, moments and master as
// its outputs (ir/ops/update.h).
kernels::UpdateConstants update_constants(const WeightUpdate& a);
// The numbers of a step, of a device: the learning rate and the update's number from `step`, the
// scale and whether it is skipped from `report`.
kernels::UpdateNumbers update_numbers(const TensorView& step, const TensorView& report);
// The seed of the step, for the host.
double update_seed(const BoundOp& b, const TensorView& step);
kernels::Update update_operands(const BoundOp& b, const WeightUpdate& a);

// For a member: weight decay, and the random numbers of its elements (or of a part's elements).
bool decays(const BoundOp& b, const WeightUpdate& a, const MemberRange& member);
uint64_t rounding_key(const BoundOp& b, ValueId weight, double seed, const std::string& part = "");

}  // namespace tessera::runtime
