// Debug: the gradients of a step as a safetensors file under Hugging Face's names.
#pragma once

#include <string>

#include "model/model_config.h"
#include "train/trainer.h"

namespace tessera {

// Means over the loss tokens, f32, in Hugging Face's layout: what PyTorch's `.grad` holds after
// the backward of a mean loss.
void write_gradients(const Path& file, Trainer& trainer, const ModelConfig& model);

}  // namespace tessera
