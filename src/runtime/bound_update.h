// What the bindings of updates share.
#pragma once

#include "kernels/update.h"
#include "runtime/bound_op.h"

namespace tessera {

// Of an op with gradient, step and report as its first inputs, and weights, moments and master as
// its outputs (ir/ops/update.h).
kernels::UpdateStep update_constants(const WeightUpdate& a);
kernels::Update update_operands(const BoundOp& b, const WeightUpdate& a);

// For a member: weight decay, and the random numbers of its elements (or of a part's elements).
bool decays(const BoundOp& b, const WeightUpdate& a, const MemberRange& member);
uint64_t rounding_key(const BoundOp& b, ValueId weight, double seed, const std::string& part = "");

}  // namespace tessera
