// Which of its signatures an op gets on one axis, from the places of its inputs. In this order:
//   1. a weight that is divided, or declared shared, decides
//   2. the first input that is divided is carried, where a signature can (of several, that with the
//      fewest conversions); one that none can carry goes home
//   3. inputs that are partial are carried by what is linear in all of them and keeps their size;
//      else they go home, and 2 again
//   4. shared if an input is, else replicated if one is, else free
#pragma once

#include "ir/signature.h"

namespace tessera::compile {

// A weight, or what is made of weights and ids alone: its uses will decide.
constexpr int8_t kFree = -8;

// The default places of values between ops, and their places between blocks: divided over the
// data axes by sequence; hidden values, with sequence parallelism, over tensor by token; else
// replicated.
struct DefaultPlaces {
  int64_t sequences, tokens, source;
  bool sequence_parallel;

  int8_t of(const Value& v, AxisKind axis) const;
};

Signature choose_signature(const Op& op, ValueSpan values, const DefaultPlaces& home,
                           AxisKind axis);

}  // namespace tessera::compile
