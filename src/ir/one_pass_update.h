// One-pass update ops, whichever optimizer they are of.
#pragma once

#include "ir/op.h"

namespace tessera {

struct OnePass {
  OptimizerKind kind = OptimizerKind::kAdamW;
  const WeightUpdate* update = nullptr;  // points into the op
};
// CHECKs that the op is one.
OnePass one_pass_of(const Op& op);

// The attributes of the update op of that optimizer.
OpAttributes one_pass_update(OptimizerKind kind, const WeightUpdate& update);

}  // namespace tessera
