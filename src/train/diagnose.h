// A number that is not finite: which value of which op was the first.
#pragma once

#include <string>

#include "train/trainer.h"

namespace tessera::train {

// Runs the trainer's last step again, looking at what every op writes. A sentence such as
// "layer 17, forward, layer.attn (attention): +inf at element 7,113 of [4, 512, 8, 64]; its inputs
// are finite", or that this time all values were finite.
std::string first_bad_value(Trainer& trainer, comm::World& world);

}  // namespace tessera::train
