// Chooses the signature of an op on one mesh axis from the placements of its inputs, by these rules
// in order:
//   0. over kContext, attention that divides_heads() is split by head; for any other op, values
//      split by head are converted to their home sharding
//   1. a weight that is divided, or declared shared, decides
//   2. the split of the first divided input is kept if a signature can keep it (among several
//      signatures, the one with the fewest conversions); an input whose split no signature can keep
//      is converted to its home sharding
//   3. partial inputs stay partial if the op is linear in all of them and keeps their size;
//      otherwise they are converted to their home sharding, and rule 2 is tried again
//   4. shared if an input is shared, else replicated if one is replicated, else free
#pragma once

#include "ir/signature.h"

namespace tessera::compile {

// The placement of a weight, or of a value computed from weights and ids alone, that its uses have
// yet to decide.
constexpr int8_t kFree = -8;

// The home shardings of values, inside and between blocks: divided by sequence over the data axes,
// and values of all tokens by token over kContext; hidden states with sequence parallelism divided
// by token over tensor; everything else replicated.
struct DefaultPlaces {
  int64_t sequences, tokens, source;
  bool sequence_parallel;
  ContextCut cut = ContextCut::kParts;  // how kContext divides tokens

  int8_t of(const Value& v, AxisKind axis) const;
};

// Returns true for attention whose keys are packed with its queries: context-parallel ranks divide
// its heads, since a query needs the keys of all tokens.
bool divides_heads(const Op& op);

Signature choose_signature(const Op& op, ValueSpan values, const DefaultPlaces& home,
                           AxisKind axis);

}  // namespace tessera::compile
