// Removes what no call of a program uses.
#pragma once

#include "ir/program.h"

namespace tessera {

// Removes segments that this stage never calls, such as those of another stage.
void drop_uncalled(Program& p);
// Removes frames that no call touches, except those of state.
void drop_untouched(Program& p);

}  // namespace tessera
