// Parses what print() writes. Throws Error for anything else, with line, column, what was found and
// what was expected: "train.txt:12:7: found 'nrom', expected the name of an op". Checks that ids
// are in range; verify() checks the rest.
#pragma once

#include <string>
#include <string_view>

#include "ir/program.h"

namespace tessera {

// `source` names the text in errors.
Graph parse_graph(std::string_view text, const std::string& source);
Program parse_program(std::string_view text, const std::string& source);

}  // namespace tessera
