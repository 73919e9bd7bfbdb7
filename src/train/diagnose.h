// A number that is not finite: which value of which op was the first.
#pragma once

#include <span>
#include <string>

#include "train/trainer.h"

namespace tessera {

// Runs the trainer's last step again, looking at what every op writes. A sentence such as
// "layer 17, forward, layer.attn (attention): +inf at element 7,113 of [4, 512, 8, 64]; its inputs
// are finite", or that this time all values were finite.
std::string first_bad_value(Trainer& trainer, World& world);

// For people: the step that came out with `r`, what was found, the gradient norms before it, and
// the last good checkpoint (empty: there is none).
std::string bad_number_text(const StepResult& r, const std::string& first_bad,
                            std::span<const double> norms, const Path& last_checkpoint);

}  // namespace tessera
