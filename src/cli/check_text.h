// Checks programs that `tessera compile --text` printed, without the run that they come from.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/program.h"

namespace tessera {

// Prints the size of the programs and whether prove() found something in them.
void print_verdict(std::span<const Program> programs, const std::vector<std::string>& findings);
// Prints the findings to stderr and returns the exit code: 0 if there are none.
int print_findings(const std::vector<std::string>& findings);

// Reads one program per stage of the pipeline, in any order, and prints what prove() finds. Returns
// the exit code: 0 if it finds nothing. Throws Error for a text that is not a program, with line
// and column, for stages that are missing, and for programs with other names or meshes.
int check_text(const std::vector<std::string>& files);

}  // namespace tessera
