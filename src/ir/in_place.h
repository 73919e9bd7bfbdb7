// Which ops may write over what they read.
#pragma once

#include "ir/op.h"

namespace tessera {

// The input that an op may overwrite with one of its outputs: indices, or -1 where there is none.
struct InPlace {
  int input = kNone, output = 0;
};
InPlace in_place(const Op& op);

// Whether an output of that role is what it was, changed: weights and what is kept of them, caches.
constexpr bool changes_state(OpKind kind, Role output) {
  return is_update(kind) || output == Role::kCache || output == Role::kFactor;
}

}  // namespace tessera
