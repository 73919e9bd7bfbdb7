// Finds the first value that is not finite, and the op that wrote it.
#pragma once

#include <string>

#include "train/trainer.h"

namespace tessera::train {

// Repeats the trainer's last step and tests the outputs of every op. Returns text such as "layer
// 17, forward, layer.attn (attention): +inf at element 7,113 of [4, 512, 8, 64]; its inputs are
// finite", or a statement that all values were finite this time. Collective.
std::string first_bad_value(Trainer& trainer, comm::World& world);

}  // namespace tessera::train
