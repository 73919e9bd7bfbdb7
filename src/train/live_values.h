// Which values of a program have a meaning after the op that writes them.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tessera {

// Returns true for each value that some op reads or that outlives its segment. What an op writes in
// addition to the requested output, such as the gradient of a frozen bias, is neither: nothing
// clears its bytes before an op adds to them, so its contents are undefined.
IdVector<ValueId, bool> live_values(const Program& program);

}  // namespace tessera
