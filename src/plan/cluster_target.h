// What a machine that is not at hand asks of a program.
#pragma once

#include "ir/target.h"
#include "plan/hardware.h"

namespace tessera {

// Accelerators read weights as they lie (no packing) and make reductions in place; the fused head
// holds the logits of one chunk of tokens, in f32 and in the weights' type.
Target cluster_target();

}  // namespace tessera
