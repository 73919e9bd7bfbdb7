// The one rule for files and folders that a command writes: it does not replace existing ones
// unless --force is given.
#pragma once

#include "cli/arguments.h"

namespace tessera {

// Adds the option --force.
void add_force(Arguments& arguments, bool& force);

// Throws Error if `file` exists and `force` is not set.
void refuse_existing(const std::string& file, bool force);

}  // namespace tessera
