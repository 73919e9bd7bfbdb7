// What one pass changes in a small program, compared with the text in <pass>.txt.
#pragma once

#include <string>

#include "compile/request.h"

namespace tessera::testing {

// A model of one layer, the smallest in which each pass has something to do.
compile::CompileRequest tiny_request(model::Family family = model::Family::kNeox);

// Compiles the request up to the pass and compares the lines that the pass removes ("-") and adds
// ("+") with <pass>.txt. `pass_test --write` writes the file instead.
void expect_change(const std::string& pass, const compile::CompileRequest& request);

// Set by main() from --write.
inline bool writes_texts = false;

}  // namespace tessera::testing
