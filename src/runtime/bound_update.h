// What the bindings of updates share.
#pragma once

#include "kernels/update.h"
#include "runtime/bound_op.h"

namespace tessera {

// Of an op with gradient, step and report as its first inputs, and weights, moments and master as
// its outputs (ir/ops/update.cc).
kernels::UpdateStep update_constants(const BoundOp& b);  // what the attributes say
kernels::Update update_operands(const BoundOp& b);

// For a member: weight decay, and the random numbers of its elements (or of a part's elements).
bool decays(const BoundOp& b, const MemberRange& member);
bool rounds_stochastically(const Attributes& a);
uint64_t rounding_key(const BoundOp& b, ValueId weight, double seed, const std::string& part = "");

}  // namespace tessera
