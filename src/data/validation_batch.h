// A micro-batch of a validation set.
#pragma once

#include "data/batches.h"
#include "data/training_data.h"

namespace tessera {

// Rows are samples first … first + B − 1 of the set, those below `samples` (and the set's end); all
// other rows and places hold token 0 and kIgnoredLabel.
void fill_validation_batch(const ValidationData& data, int64_t first, int64_t samples,
                           const BatchView& out);

}  // namespace tessera
