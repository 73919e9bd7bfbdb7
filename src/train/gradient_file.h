// Debug: the gradients of a step in a file.
#pragma once

#include <string>

#include "model/model_config.h"
#include "train/trainer.h"

namespace tessera {

// Throws Error if something exists at `file` that is not a dump of gradients as a checkpoint.
void require_place_for_gradients(const Path& file);

// A name that ends in .safetensors, on one rank: means over the loss tokens, f32, under Hugging
// Face's names and in its layout: what PyTorch's `.grad` holds after the backward of a mean loss.
// Any other name, on any layout: sums over the loss tokens as a checkpoint, for `checkpoint diff`.
void write_gradients(const Path& file, Trainer& trainer, const ModelConfig& model,
                     const SaveGroup& group);

}  // namespace tessera
