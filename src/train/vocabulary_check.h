// Checks the data of a run against its model's vocabulary.
#pragma once

#include <span>

#include "train/run_data.h"

namespace tessera {

// Called before training. If PREFIX.json of a data set of data.train, data.stages or
// data.validation states a larger vocabulary than the model's, or the tokenizer of instructions has
// one, reads the whole set. Throws Error that names the first id beyond the model's vocabulary;
// returns where there is none. A set without PREFIX.json is checked row by row as it is read.
void require_vocabulary(const RunConfig& config, const Tokenizer& tokenizer,
                        const TrainingRows& rows, std::span<const ValidationSet> validation);

}  // namespace tessera
