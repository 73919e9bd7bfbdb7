// Reads the model configuration in a checkpoint's header and checks it against the stored tensors.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/hf_names.h"

namespace tessera::checkpoint {

// Returns the model in the header, with derived sizes filled in. Throws Error if the header
// describes an impossible model, or if one of its tensors is missing, has another shape or is not
// stored in a floating-point type.
model::ModelConfig stored_model(const CheckpointReader& checkpoint);

// Returns the model in the header without a look at the tensors.
model::ModelConfig model_in_header(const CheckpointReader& checkpoint);

// Throws Error for a reward model, which has scores in place of the logits of tokens.
void require_logits(const CheckpointReader& checkpoint);

// Returns the stored tensors of the weights `names`: the f32 master weight if there is one. Throws
// Error as stored_model does.
std::vector<const StoredTensor*> stored_weights(const CheckpointReader& checkpoint,
                                                const std::vector<model::HfTensor>& names);

// Returns the first entries of `faults`, one per line, and the number of the others.
std::string listed_faults(const std::vector<std::string>& faults);

}  // namespace tessera::checkpoint
