// Checks token ids against a model's vocabulary.
#pragma once

#include <cstdint>
#include <span>

#include "data/indexed_dataset.h"
#include "data/instructions.h"

namespace tessera {

// All throw an Error that names the place of the first id outside [0, vocabulary); with vocabulary
// <= 0 any id is accepted.

// `ids` are tokens `start`, `start` + 1, … of the data set.
void require_vocabulary(std::span<const int32_t> ids, int64_t vocabulary,
                        const IndexedDataset& data, int64_t start);
void require_vocabulary(const IndexedDataset& data, int64_t vocabulary);  // reads all of it
void require_vocabulary(const InstructionData& data, int64_t vocabulary);

}  // namespace tessera
