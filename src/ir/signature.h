// Where the operands of an op may stand on one axis of the mesh, and how a value gets from one
// place to another.
//
//   value       gradient    meaning
//   split(d)    split(d)    each rank holds a part of dimension d
//   replicated  replicated  same bytes, every rank computes the same with them
//   shared      partial     same bytes, used by computations that differ
//   partial     shared      the sum over the ranks is the value (partial_max: the maximum)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/mesh.h"
#include "ir/rule.h"

namespace tessera {

// The place of a gradient, given that of its value, and back. No gradient passes a maximum.
int8_t dual(int8_t place);
Sharding dual(const Sharding& s);

// Ids, masks and counts have no gradient, so for them replicated is as good as shared.
bool has_gradient(const Value& v);

// One place for each operand. By its rule, an op has exactly these on each axis, in this order:
//   split(l)    for each label of `splits`: operands with l split there, other inputs shared, other
//               outputs partial (partial_max by a rule of `maximum`)
//   partial     for each linear set: its inputs and all outputs partial, other inputs shared
//   shared      all of them, but for a loss
//   replicated  all of them
struct Signature {
  std::vector<int8_t> inputs, outputs;
};
Signature split_signature(const ShardingRule& rule, char label);
std::vector<Signature> signatures(const ShardingRule& rule);

// Whether a value that stands at `place` can be the operand that a signature wants at `wanted`.
// The report fits anywhere: what is replicated is added by one rank only. `same_bytes`: replicated
// and shared are one, as they are where no gradient rule is to come.
bool fits(const Value& v, int8_t place, int8_t wanted, bool same_bytes = false);
// The first signature that the op's inputs and these of its outputs (kNone: any) fit.
std::optional<Signature> fitting(const Op& op, const std::vector<ValueId>& outputs,
                                 ValueSpan values, AxisKind axis, bool same_bytes = false);

// The axes that ops divide values over: those with more than one rank, but for the stages.
std::vector<AxisKind> divided_axes(const Mesh& mesh);

// The op that brings a value from one place to another, but for its group, and the suffix of the
// new value's name. The gradient of a conversion is the one between the duals. Nothing where there
// is none.
struct Conversion {
  OpAttributes attributes;
  const char* suffix;
};
std::optional<Conversion> conversion(int8_t from, int8_t to);

}  // namespace tessera
