// A run small enough to train on any machine in a minute, after the recipe of a large one.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"

namespace tessera {

// Keys, as key=value, that make a run its small twin. Sizes become small: two layers of width 64 (a
// stack), 8 heads that share keys in the same groups, the tokenizer's own vocabulary, sequences of
// 64 tokens, 8 of them a step, 100 steps, one rank, snapshots at the end alone. The recipe stays:
// family, initialisation, data processing, optimizer and its numbers, precision, recomputation, the
// schedule's shape, and its warm-up and decay as shares of its steps. AdamW's rate is 3e-3, since
// what suits billions of parameters teaches 100,000 nothing in 100 steps.
std::vector<std::string> small_twin(const RunConfig& run);

}  // namespace tessera
