// The model of a checkpoint: its header, checked against its tensors.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/hf_names.h"

namespace tessera::checkpoint {

// The model of the header with its sizes derived. Throws Error if the header describes a model that
// cannot exist, or if one of its tensors is missing, has another shape or is not stored as
// floating-point numbers.
model::ModelConfig stored_model(const CheckpointReader& checkpoint);

// The weights of `names` as they are stored: the master copy, where there is one. Throws Error as
// stored_model does.
std::vector<const StoredTensor*> stored_weights(const CheckpointReader& checkpoint,
                                                const std::vector<model::HfTensor>& names);

// The first of `faults`, each on a line of its own, and the number of the others.
std::string listed_faults(const std::vector<std::string>& faults);

}  // namespace tessera::checkpoint
