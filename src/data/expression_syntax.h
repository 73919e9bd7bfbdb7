// Parses expressions in Oniguruma's syntax.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/unicode_sets.h"

namespace tessera::data {

// An expression as PCRE2 writes it, in which each set of characters is a part of its own.
struct ParsedExpression {
  struct Part {
    std::string text;
    int set = -1;  // index into `sets`; -1: `text`
  };
  std::vector<Part> parts;
  std::vector<CodeSet> sets;
};

// Throws Error that names the construct and its position if the expression is invalid or has a
// construct that is not supported (expression.h).
ParsedExpression parse_expression(std::string_view pattern);

}  // namespace tessera::data
