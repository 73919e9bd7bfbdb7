// Which global values of the run's state a rank holds: the one function that saving, resuming,
// export and verification ask.
#pragma once

#include <vector>

#include "ir/program.h"
#include "ir/state/state_piece.h"

namespace tessera {

// What the rank at `at` holds: weights under their own names, in f32 where there are masters, then
// what the optimizer keeps of each, in the order of the program's frames. Each element of the state
// is owned by one rank.
std::vector<StatePiece> pieces(const Program& program, const Coordinates& at = {});

// The sums of gradients over the step, under the names of their weights; valid after a run.
std::vector<StatePiece> gradient_pieces(const Program& program, const Coordinates& at = {});

}  // namespace tessera
