// Checks programs that `tessera compile --text` printed, without the run that they come from.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// Reads one program per stage of the pipeline, in any order, and prints what prove() finds. Returns
// the exit code: 0 if it finds nothing. Throws Error for a text that is not a program, with line
// and column, for stages that are missing, and for programs with other names or meshes.
int check_text(const std::vector<std::string>& files);

}  // namespace tessera
