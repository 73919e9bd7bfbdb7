// The possible placements of an op's operands on one mesh axis, and conversions between placements.
//
//   value       gradient    meaning
//   split(d)    split(d)    each rank holds a shard along dimension d
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

// Returns the placement of a gradient, given that of its value, and vice versa. No gradient passes
// through a maximum.
int8_t dual(int8_t place);
Sharding dual(const Sharding& s);

// Returns true if the value has a gradient. Ids, masks and counts have none, so replicated and
// shared are equivalent for them.
bool has_gradient(const Value& v);

// One placement per operand. By its rule, an op has exactly these signatures on each axis, in this
// order:
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

// Returns true if a value with the placement `place` fits an operand whose signature has the
// placement `wanted`. The report fits anywhere: one rank alone adds replicated terms to it.
// `same_bytes`: replicated and shared count as equal, as they do once all gradients exist.
bool fits(const Value& v, int8_t place, int8_t wanted, bool same_bytes = false);
// Returns the first signature that fits the op's inputs and these outputs (kNone: any).
std::optional<Signature> fitting(const Op& op, const std::vector<ValueId>& outputs,
                                 ValueSpan values, AxisKind axis, bool same_bytes = false);

// Returns the axes over which ops divide values: those with more than one rank, except kPipeline.
std::vector<AxisKind> divided_axes(const Mesh& mesh);

// The op, without its group, that converts a value from one placement to another, and the suffix of
// the new value's name. The gradient of a conversion is the conversion between the duals.
// conversion() returns nothing if there is no such op.
struct Conversion {
  OpAttributes attributes;
  const char* suffix;
};
std::optional<Conversion> conversion(int8_t from, int8_t to);

}  // namespace tessera
