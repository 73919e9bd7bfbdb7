// The option --force: commands replace existing files only with it (data/source_list.h).
#pragma once

#include "cli/arguments.h"

namespace tessera {

// Adds the option --force.
void add_force(Arguments& arguments, bool& force);

}  // namespace tessera
